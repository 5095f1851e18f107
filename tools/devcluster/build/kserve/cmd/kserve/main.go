// Command kserve runs KServe's own controllers for InferenceService and LLMInferenceService, and its webhook that sets the
// defaults of an InferenceService, in one process that listens on loopback only. KServe's programs listen on all addresses.
package main

import (
	"context"
	"flag"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kserve/kserve/pkg/apis/serving/v1alpha2"
	"github.com/kserve/kserve/pkg/apis/serving/v1beta1"
	"github.com/kserve/kserve/pkg/controller/v1alpha2/llmisvc"
	"github.com/kserve/kserve/pkg/controller/v1beta1/inferenceservice"
	"github.com/kserve/kserve/pkg/scheme"
)

func main() {
	port := flag.Int("webhook-port", 0, "Port of the webhook.")
	certificates := flag.String("cert-dir", "", "Folder with apiserver.crt and apiserver.key, for the webhook.")
	flag.Parse() // with --kubeconfig of controller-runtime
	ctrl.SetLogger(zap.New())

	config := ctrl.GetConfigOrDie()
	clients := kubernetes.NewForConfigOrDie(config)
	hooks := webhook.NewServer(webhook.Options{
		Host: "127.0.0.1", Port: *port, CertDir: *certificates, CertName: "apiserver.crt", KeyName: "apiserver.key",
	})
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metrics.Options{BindAddress: "0"}, WebhookServer: hooks})
	check(err)
	check(scheme.AddAll(manager.GetScheme()))
	settings, err := v1beta1.GetInferenceServiceConfigMap(context.Background(), clients)
	check(err)
	deploy, err := v1beta1.NewDeployConfig(settings)
	check(err)
	ingress, err := v1beta1.NewIngressConfig(settings)
	check(err)

	events := func(component string) record.EventRecorder {
		return record.NewBroadcaster().NewRecorder(manager.GetScheme(), corev1.EventSource{Component: component})
	}
	check((&inferenceservice.InferenceServiceReconciler{
		Client: manager.GetClient(), Clientset: clients, Log: ctrl.Log, Scheme: manager.GetScheme(), Recorder: events("isvc"),
	}).SetupWithManager(manager, deploy, ingress))
	check((&llmisvc.LLMISVCReconciler{
		Client: manager.GetClient(), Config: config, Clientset: clients, EventRecorder: events("llmisvc"),
		Validator: func(ctx context.Context, service *v1alpha2.LLMInferenceService) error {
			_, err := (&v1alpha2.LLMInferenceServiceValidator{}).ValidateCreate(ctx, service)
			return err
		},
	}).SetupWithManager(manager))
	check(ctrl.NewWebhookManagedBy(manager).
		For(&v1beta1.InferenceService{}).WithDefaulter(&v1beta1.InferenceServiceDefaulter{}).Complete())
	check(manager.Start(ctrl.SetupSignalHandler()))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
