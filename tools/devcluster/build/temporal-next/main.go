// Command temporal starts a development server of a newer Temporal, with the flags of the CLI's `server start-dev` that are used
// here. The CLI that contains this server cannot be built as a Go module, because it replaces a module that is not published.
package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
	"github.com/urfave/cli/v2"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/headers"
	tlog "go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"gopkg.in/yaml.v3"
)

const cluster = "active"

func main() {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "ip", Value: "127.0.0.1"},
		&cli.IntFlag{Name: "port", Value: 7233},
		&cli.IntFlag{Name: "http-port"},
		&cli.IntFlag{Name: "ui-port"},
		&cli.IntFlag{Name: "metrics-port"},
		&cli.BoolFlag{Name: "headless"},
		&cli.StringFlag{Name: "db-filename"},
		&cli.StringFlag{Name: "log-level", Value: "info"},
		&cli.StringSliceFlag{Name: "namespace"},
		&cli.StringSliceFlag{Name: "sqlite-pragma"},
		&cli.StringSliceFlag{Name: "search-attribute"},
		&cli.StringSliceFlag{Name: "dynamic-config-value", Usage: "KEY=VALUE, the value in JSON; workflows can be paused unless it says otherwise"},
	}
	startDev := &cli.Command{Name: "start-dev", Flags: flags, Action: start}
	app := &cli.App{
		Name:     "temporal",
		Version:  "(Server " + headers.ServerVersion + ")",
		Commands: []*cli.Command{{Name: "server", Subcommands: []*cli.Command{startDev}}},
	}
	if err := app.Run(os.Args); err != nil {
		log.Fatal(err)
	}
}

func start(given *cli.Context) error {
	conf, err := configuration(given)
	if err != nil {
		return err
	}
	dynamic, err := dynamicValues(given.StringSlice("dynamic-config-value"))
	if err != nil {
		return err
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, service := range conf.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(address(given.String("ip"), service.RPC.GRPCPort))
	}
	server, err := temporal.NewServer(
		temporal.WithConfig(conf),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(tlog.NewZapLogger(tlog.BuildZapLogger(tlog.Config{Stdout: true, Level: given.String("log-level")}))),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithDynamicConfigClient(dynamic),
	)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	if !given.Bool("headless") {
		go serveUI(given)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
	return server.Stop()
}

// configuration is that of a server whose services share one SQLite database, in which the namespaces exist.
func configuration(given *cli.Context) (*config.Config, error) {
	ip, port := given.String("ip"), given.Int("port")
	file, attributes := given.String("db-filename"), map[string]string{"mode": "rwc"}
	if file == "" {
		file, attributes = "development", map[string]string{"mode": "memory", "cache": "shared"}
	}
	for _, pragma := range given.StringSlice("sqlite-pragma") {
		name, value, _ := strings.Cut(pragma, "=")
		attributes[name] = value
	}
	database := map[string]any{"sql": map[string]any{"pluginName": "sqlite", "databaseName": file, "connectAttributes": attributes}}
	services := map[string]any{}
	for _, name := range temporal.DefaultServices {
		rpc := map[string]any{"bindOnIP": ip, "grpcPort": port}
		if name == string(primitives.FrontendService) {
			rpc["httpPort"] = given.Int("http-port")
		}
		if name != string(primitives.FrontendService) || given.Int("http-port") == 0 {
			free, err := net.Listen("tcp", address(ip, 0))
			if err != nil {
				return nil, err
			}
			defer free.Close() // only once each service has one of its own
			key := "grpcPort"
			if name == string(primitives.FrontendService) {
				key = "httpPort"
			}
			rpc[key] = free.Addr().(*net.TCPAddr).Port
		}
		services[name] = map[string]any{"rpc": rpc}
	}
	global := map[string]any{"membership": map[string]any{"maxJoinDuration": "30s", "broadcastAddress": ip}}
	if metrics := given.Int("metrics-port"); metrics != 0 {
		global["metrics"] = map[string]any{"prometheus": map[string]any{"listenAddress": address(ip, metrics), "handlerPath": "/metrics"}}
	}
	disabled := map[string]any{"history": map[string]any{"state": "disabled"}, "visibility": map[string]any{"state": "disabled"}}
	own := map[string]any{"enabled": true, "initialFailoverVersion": 1, "rpcName": "frontend", "rpcAddress": address(ip, port)}
	text, err := yaml.Marshal(map[string]any{
		"persistence": map[string]any{
			"defaultStore": "sqlite", "visibilityStore": "sqlite", "numHistoryShards": 1, "datastores": map[string]any{"sqlite": database},
		},
		"global":   global,
		"services": services,
		"clusterMetadata": map[string]any{
			"failoverVersionIncrement": 10, "masterClusterName": cluster, "currentClusterName": cluster,
			"clusterInformation": map[string]any{cluster: own},
		},
		"dcRedirectionPolicy": map[string]any{"policy": "noop"},
		"archival":            disabled,
		"namespaceDefaults":   map[string]any{"archival": disabled},
		"publicClient":        map[string]any{"hostPort": address(ip, port)},
	})
	if err != nil {
		return nil, err
	}
	conf := &config.Config{}
	if err := yaml.Unmarshal(text, conf); err != nil {
		return nil, err
	}
	return conf, prepare(conf.Persistence.DataStores["sqlite"].SQL, given)
}

func prepare(database *config.SQL, given *cli.Context) error {
	if file := given.String("db-filename"); file != "" {
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			if err := sqlite.SetupSchema(database); err != nil {
				return err
			}
		}
	}
	attributes := map[string]enums.IndexedValueType{}
	for _, one := range given.StringSlice("search-attribute") {
		name, text, _ := strings.Cut(one, "=")
		kind, err := enums.IndexedValueTypeFromString(text)
		if err != nil {
			return err
		}
		attributes[name] = kind
	}
	for _, name := range append([]string{"default"}, given.StringSlice("namespace")...) {
		namespace, err := sqlite.NewNamespaceConfig(cluster, name, false, attributes)
		if err != nil {
			return err
		}
		if err := sqlite.CreateNamespaces(database, namespace); err != nil {
			return err
		}
	}
	return nil
}

func dynamicValues(given []string) (dynamicconfig.StaticClient, error) {
	values := dynamicconfig.StaticClient{
		dynamicconfig.WorkflowPauseEnabled.Key():                         true,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
	}
	for _, one := range given {
		name, text, _ := strings.Cut(one, "=")
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("dynamic config value %s: %w", one, err)
		}
		values[dynamicconfig.MakeKey(name)] = value
	}
	return values, nil
}

func serveUI(given *cli.Context) {
	port := given.Int("ui-port")
	if port == 0 {
		port = given.Int("port") + 1000
	}
	ui := uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		Host:                given.String("ip"),
		Port:                port,
		TemporalGRPCAddress: address(given.String("ip"), given.Int("port")),
		EnableUI:            true,
		CORS:                uiconfig.CORS{CookieInsecure: true},
		HideLogs:            true,
	}))
	if err := ui.Start(); err != nil {
		log.Fatal(err)
	}
}

func address(ip string, port int) string {
	return net.JoinHostPort(ip, strconv.Itoa(port))
}
