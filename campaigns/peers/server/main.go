// A model server for measurements of clients: every answer is a function of its request, so that an
// answer that reaches another record is seen. It answers V2 (JSON) and chat completions on 127.0.0.1.
//
// Prints its port, serves until standard input is closed, and prints its ledger. It does no inference
// and checks only what its answer needs.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The prediction of a row is the sum of its values times these, which is exact for the values that the
// campaign sends (campaigns/peers/records.py).
var weights = []float64{1, 1_000, 1_000_000, 1.0 / 64}

// One record of this many is refused, if records are refused at all, and always the same ones.
const refusedOf = 100
const refusedRest = 37

const slowOf = 100

type settings struct {
	delay        time.Duration
	refuses      bool
	slow         time.Duration
	restartAfter int64
	down         time.Duration
}

// What the server has seen. `records` are those of answers with 200.
type ledger struct {
	requests, records, refused, cancelled, slow, restarts atomic.Int64
}

type tensor struct {
	Name     string          `json:"name"`
	Datatype string          `json:"datatype"`
	Shape    []int           `json:"shape"`
	Data     json.RawMessage `json:"data"`
}

type inference struct {
	ID     string   `json:"id"`
	Inputs []tensor `json:"inputs"`
}

type chat struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

var errRefused = errors.New("this record is refused")

func main() {
	var given settings
	port := flag.Int("port", 0, "port on 127.0.0.1; 0: any that is free")
	flag.DurationVar(&given.delay, "delay", 0, "how long each answer takes")
	flag.BoolVar(&given.refuses, "refuse", false, "answer 400 to requests with one of 1 % of the records")
	flag.DurationVar(&given.slow, "slow", 0, "how much longer 1 % of the answers take")
	flag.Int64Var(&given.restartAfter, "restart-after", 0, "stop after this many requests, and start again")
	flag.DurationVar(&given.down, "down", 500*time.Millisecond, "how long the restart takes")
	flag.Parse()

	seen := new(ledger)
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", *port))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	address := listener.Addr().String()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go serve(listener, address, given, seen)

	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"requests": seen.requests.Load(), "records": seen.records.Load(), "refused": seen.refused.Load(),
		"cancelled": seen.cancelled.Load(), "slow": seen.slow.Load(), "restarts": seen.restarts.Load(),
	})
}

// Serves, and once, after the given number of requests, drops all connections and listens again.
func serve(listener net.Listener, address string, given settings, seen *ledger) {
	for {
		due := make(chan struct{}, 1)
		server := &http.Server{Handler: handler(given, seen, due)}
		go func() {
			<-due
			_ = server.Close()
		}()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		seen.restarts.Add(1)
		time.Sleep(given.down)
		var err error
		if listener, err = net.Listen("tcp4", address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func handler(given settings, seen *ledger, due chan<- struct{}) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet {
			describe(out, request.URL.Path)
			return
		}
		number := seen.requests.Add(1)
		if number == given.restartAfter {
			due <- struct{}{}
		}
		body := bytes.NewBuffer(make([]byte, 0, max(request.ContentLength, 0)+bytes.MinRead))
		if _, err := body.ReadFrom(request.Body); err != nil {
			seen.cancelled.Add(1)
			return
		}
		wait := given.delay
		if given.slow > 0 && number%slowOf == 0 {
			seen.slow.Add(1)
			wait += given.slow
		}
		if !passes(request.Context(), wait) {
			seen.cancelled.Add(1)
			return
		}
		answer, records, err := predict(request.URL.Path, body.Bytes(), given.refuses)
		out.Header().Set("Content-Type", "application/json")
		if err != nil {
			seen.refused.Add(1)
			out.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(out, `{"error":%q}`, err.Error())
			return
		}
		seen.records.Add(int64(records))
		_, _ = out.Write(answer)
	})
}

// Whether the time passes before the client gives up.
func passes(ctx context.Context, wait time.Duration) bool {
	if wait <= 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// Metadata of a model, or an empty answer, which every probe accepts.
func describe(out http.ResponseWriter, path string) {
	out.Header().Set("Content-Type", "application/json")
	name, isModel := strings.CutPrefix(path, "/v2/models/")
	if !isModel || strings.Contains(name, "/") {
		_, _ = io.WriteString(out, "{}")
		return
	}
	fmt.Fprintf(out, `{"name":%q,"versions":["1"],"platform":"campaign",`+
		`"inputs":[{"name":"input-0","datatype":"FP32","shape":[-1,4]}],`+
		`"outputs":[{"name":"output-0","datatype":"FP64","shape":[-1]}]}`, name)
}

func predict(path string, body []byte, refuses bool) ([]byte, int, error) {
	if name, isV2 := strings.CutPrefix(path, "/v2/models/"); isV2 {
		return infer(strings.TrimSuffix(name, "/infer"), body, refuses)
	}
	answer, err := complete(body, refuses)
	return answer, 1, err
}

func infer(model string, body []byte, refuses bool) ([]byte, int, error) {
	var asked inference
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, 0, err
	}
	if len(asked.Inputs) == 0 || len(asked.Inputs[0].Shape) == 0 {
		return nil, 0, errors.New("no input with a shape")
	}
	rows := asked.Inputs[0].Shape[0]
	sums := make([]float64, rows)
	column := 0
	for _, input := range asked.Inputs {
		values, err := numbers(input.Data)
		if err != nil {
			return nil, 0, err
		}
		width := len(values) / max(rows, 1)
		if width*rows != len(values) || column+width > len(weights) {
			return nil, 0, fmt.Errorf("%d values of %q do not fit %d rows", len(values), input.Name, rows)
		}
		for at, value := range values {
			if refuses && column == 0 && at%width == 0 && int(value*8)%refusedOf == refusedRest {
				return nil, 0, errRefused
			}
			sums[at/width] += value * weights[column+at%width]
		}
		column += width
	}
	answer := make([]byte, 0, 256+20*rows)
	answer = fmt.Appendf(answer, `{"model_name":%q,"model_version":"1",`, model)
	if asked.ID != "" {
		answer = fmt.Appendf(answer, `"id":%q,`, asked.ID)
	}
	answer = fmt.Appendf(answer, `"outputs":[{"name":"output-0","datatype":"FP64","shape":[%d],"data":[`, rows)
	for at, sum := range sums {
		if at > 0 {
			answer = append(answer, ',')
		}
		answer = strconv.AppendFloat(answer, sum, 'f', -1, 64)
	}
	return append(answer, "]}]}"...), rows, nil
}

// The numbers of an array of any depth, row by row.
func numbers(data []byte) ([]float64, error) {
	found := make([]float64, 0, bytes.Count(data, []byte{','})+1)
	for at := 0; at < len(data); {
		if strings.IndexByte("[], \n\r\t", data[at]) >= 0 {
			at++
			continue
		}
		end := at
		for end < len(data) && strings.IndexByte("[], \n\r\t", data[end]) < 0 {
			end++
		}
		value, err := strconv.ParseFloat(string(data[at:end]), 64)
		if err != nil {
			return nil, err
		}
		found = append(found, value)
		at = end
	}
	return found, nil
}

// The text of the answer repeats the last message, and a checksum of it.
func complete(body []byte, refuses bool) ([]byte, error) {
	var asked chat
	if err := json.Unmarshal(body, &asked); err != nil {
		return nil, err
	}
	if len(asked.Messages) == 0 {
		return nil, errors.New("no message")
	}
	prompt, err := text(asked.Messages[len(asked.Messages)-1].Content)
	if err != nil {
		return nil, err
	}
	sum := crc32.ChecksumIEEE([]byte(prompt))
	if refuses && sum%refusedOf == refusedRest {
		return nil, errRefused
	}
	content, err := json.Marshal(fmt.Sprintf("%08x answers: %s", sum, prompt))
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"id":"chatcmpl-%08x","object":"chat.completion","created":1700000000,"model":%q,`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null},"logprobs":null,`+
		`"finish_reason":"stop"}],"usage":{"prompt_tokens":34,"completion_tokens":22,"total_tokens":56}}`,
		sum, asked.Model, content), nil
}

// A message's text, which is a string or a list of parts.
func text(content []byte) (string, error) {
	var whole string
	if json.Unmarshal(content, &whole) == nil {
		return whole, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", err
	}
	for _, part := range parts {
		whole += part.Text
	}
	return whole, nil
}
