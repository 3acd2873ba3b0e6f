package appset_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

// recordArgoCD runs Argo CD's ApplicationSet controller on a cluster of its own
// with Argo CD's definitions, and records its Applications.
func recordArgoCD(t *testing.T, program string, world *upstreamWorld, cases []*upstreamCase) {
	t.Helper()
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	cluster.DefineFiles(t, filepath.Join(os.Getenv("ARGOCD_MODULE"), "manifests/crds/*-crd.yaml"))
	cluster.Define(t, world.definitions)
	namespace := cluster.Namespace(t)
	cluster.Apply(t, namespace, world.insert(world.objects))
	startArgoCD(t, program, cluster.Kubeconfig, namespace)
	made := world.results(t, cluster, namespace, 5*time.Minute, cases)
	for _, one := range cases {
		one.argocd = made[one.name].text(t)
		if one.differs == "" {
			one.own = "" // it was there because nothing was recorded
		}
	}
}

// startArgoCD runs the controller, and the server of repositories with its cache.
func startArgoCD(t *testing.T, program, kubeconfig, namespace string) {
	t.Helper()
	free := func() (address, port string) {
		at := programs.FreeAddress(t)
		return at.String(), fmt.Sprint(at.Port())
	}
	run := func(name string, words ...string) *programs.Process {
		command := exec.Command(program, words...)
		command.Env = programs.Environment(t, "ARGOCD_BINARY_NAME="+name, "KUBECONFIG="+kubeconfig, "ARGOCD_GPG_ENABLED=false", "AWS_EC2_METADATA_DISABLED=true")
		return programs.Run(t, name, command)
	}
	cache, cachePort := free()
	redis := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", cachePort, "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	programs.Run(t, "redis", redis).AwaitListener(t, "tcp", cache)
	repositories, repositoriesPort := free()
	_, metricsPort := free()
	run("argocd-repo-server", "--address", "127.0.0.1", "--port", repositoriesPort, "--metrics-address", "127.0.0.1", "--metrics-port", metricsPort,
		"--redis", cache, "--disable-tls", "--client-ca-path", "", "--loglevel", "warn").AwaitListener(t, "tcp", repositories)
	webhooks, _ := free()
	run("argocd-applicationset-controller", "--namespace", namespace, "--argocd-repo-server", repositories, "--repo-server-plaintext", "--enable-progressive-syncs",
		"--metrics-addr", "0", "--probe-addr", "0", "--webhook-addr", webhooks, "--loglevel", "warn")
}
