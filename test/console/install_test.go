package console

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/install/chart"
	"slipway.dev/slipway/test/programs"
)

// shellTimeout bounds a command that a person would run.
const shellTimeout = 20 * time.Second

// helmStandIn and kubectlStandIn stand where the shell looks for the programs. They
// keep what they are called with, and the text that is to be a Secret.
const (
	helmStandIn    = "#!/bin/sh\nprintf '%s\\0' \"$@\" >\"$KEPT/helm.words\"\n"
	kubectlStandIn = "#!/bin/sh\n" + `case "$*" in
*'secret generic'*) cat >"$KEPT/secret" ;;
*'apply -f -'*) cat >/dev/null ;;
esac
`
)

// helmCall is what a command of the console has Helm do.
type helmCall struct {
	namespace string
	values    map[string]any
}

// install does what the person does who copies the command of the wizard: a shell runs
// it, with the key as its standard input and in every file that it reads one from. The
// chart is rendered with the values of the command, and its agent runs as a process.
func (w *world) install(t *testing.T, body []byte) (any, error) {
	asked, err := read[struct{ Command, Key string }](body)
	if err != nil {
		return nil, err
	}
	dir := w.t.TempDir()
	key, call, err := runShell(t, dir, asked.Command, asked.Key)
	if err != nil {
		return nil, err
	}
	source, err := chart.Load(filepath.Join(root, "charts", "gitops-runtime"))
	if err != nil {
		return nil, err
	}
	made, err := source.Render(t.Context(), call.values, chart.Release{Name: "slipway-runtime", Namespace: call.namespace})
	if err != nil {
		return nil, err
	}
	if err := w.makeNamespace(t.Context(), call.namespace); err != nil {
		return nil, err
	}
	router := w.nextRouter()
	if err := w.applyAccess(t, call.namespace, router, made.Objects); err != nil {
		return nil, err
	}
	if url, _, _ := unstructured.NestedString(call.values, "global", "runtime", "ingressUrl"); url == w.mesh.url {
		w.mesh.lead(router)
	}
	name, _, _ := unstructured.NestedString(call.values, "global", "runtime", "name")
	return map[string]string{"name": name, "namespace": call.namespace}, w.startAgent(dir, agentSetUp{name: name, namespace: call.namespace, key: key, router: router, objects: made.Objects})
}

// runShell gives the key that the command puts into the cluster, and its call of Helm.
func runShell(t *testing.T, dir, text, key string) (string, helmCall, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), shellTimeout)
	defer cancel()
	for name, script := range map[string]string{"helm": helmStandIn, "kubectl": kubectlStandIn} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			return "", helmCall{}, err
		}
	}
	// The person has put the key where the command reads it.
	for _, word := range strings.Fields(text) {
		if strings.HasSuffix(word, ".key") {
			writeFile(t, filepath.Join(dir, filepath.Base(strings.Trim(word, `'"`))), key)
		}
	}
	shell := exec.CommandContext(ctx, "sh", "-e", "-c", text)
	shell.Dir, shell.Env, shell.Stdin = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "KEPT=" + dir}, strings.NewReader(key+"\n")
	if out, err := shell.CombinedOutput(); err != nil {
		return "", helmCall{}, fmt.Errorf("the command of the console: %w\n%s\n%s", err, text, out)
	}
	called, err := os.ReadFile(filepath.Join(dir, "helm.words"))
	if err != nil {
		return "", helmCall{}, fmt.Errorf("the command does not call helm: %w\n%s", err, text)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "secret")); err == nil && len(kept) > 0 {
		key = strings.TrimSpace(string(kept))
	}
	call, err := parseHelm(strings.Split(strings.TrimSuffix(string(called), "\x00"), "\x00"))
	return key, call, err
}

// parseHelm reads the words that Helm is called with.
func parseHelm(words []string) (helmCall, error) {
	call := helmCall{values: map[string]any{}}
	for i := 0; i < len(words); i++ {
		flag, value, joined := strings.Cut(words[i], "=")
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		var err error
		switch flag {
		case "--namespace", "-n":
			call.namespace = value
		case "--set":
			err = strvals.ParseInto(value, call.values)
		case "--set-string":
			err = strvals.ParseIntoString(value, call.values)
		case "--version":
		default:
			continue
		}
		if err != nil {
			return call, fmt.Errorf("%s %s: %w", flag, value, err)
		}
		if !joined {
			i++
		}
	}
	if call.namespace == "" {
		return call, fmt.Errorf("helm is called without a namespace: %q", words)
	}
	return call, nil
}

func (w *world) makeNamespace(ctx context.Context, name string) error {
	_, err := w.cluster.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// nextRouter is an address of the Pods' network for the router of one more agent,
// which an EndpointSlice may have.
func (w *world) nextRouter() string {
	bytes := w.cluster.PodNetwork.Addr().As4()
	bytes[3] = byte(240 + len(w.agents))
	return net.JoinHostPort(net.IP(bytes[:]).String(), "8088")
}

// applyAccess puts what leads to the runtime into the cluster: the Service with the
// address of the process, and the objects of the chart for the chosen mode.
func (w *world) applyAccess(t *testing.T, namespace, router string, objects []*unstructured.Unstructured) error {
	t.Helper()
	host, port, err := net.SplitHostPort(router)
	if err != nil {
		return err
	}
	w.cluster.Apply(t, namespace, fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{port: 80, targetPort: %[3]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: "", port: %[3]s}]
endpoints: [{addresses: [%[2]q], conditions: {ready: true}}]
`, mode.RouterService, host, port))
	for _, object := range objects {
		if object.GetKind() != "Ingress" {
			continue
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		w.certificate(t, namespace)
		w.cluster.Apply(t, namespace, string(text))
	}
	return nil
}

// agentSetUp is what an agent of the chart is started from.
type agentSetUp struct {
	name, namespace, key, router string
	objects                      []*unstructured.Unstructured
}

// startAgent runs the agent with the options of the chart, where paths and ports of a
// Pod are those of this machine.
func (w *world) startAgent(dir string, set agentSetUp) error {
	if w.agents[set.name] != nil {
		return fmt.Errorf("the agent of %s runs already", set.name)
	}
	options, values := "", ""
	for _, object := range set.objects {
		switch {
		case object.GetKind() == "ConfigMap" && object.GetName() == "slipway-agent":
			options, _, _ = unstructured.NestedString(object.Object, "data", "agent.yaml")
		case object.GetKind() == "Secret" && object.GetName() == "slipway-values":
			values, _, _ = unstructured.NestedString(object.Object, "data", "values.yaml")
		}
	}
	if options == "" || values == "" {
		return fmt.Errorf("the chart has no options for the agent")
	}
	decoded, err := decode(values)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"agent.yaml": options, "values.yaml": decoded, "key": set.key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	w.agents[set.name] = programs.Start(w.t, programs.Options{
		Binary: w.binary, Name: "the agent " + set.name,
		Environment: []string{"KUBECONFIG=" + w.cluster.Kubeconfig, "POD_NAMESPACE=" + set.namespace, "SSL_CERT_FILE=" + w.trusted},
		Words: []string{
			"agent", "--configFile=" + filepath.Join(dir, "agent.yaml"), "--log.format=json",
			"--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0", "--access.address=" + set.router,
			"--applications.pollInterval=1h", "--applications.pollJitter=0s", "--sources.cacheDir=" + filepath.Join(dir, "sources"),
			"--platform.keyFile=" + filepath.Join(dir, "key"), "--platform.stateDir=" + filepath.Join(dir, "state"),
			"--platform.caFile=" + w.trusted, "--runtime.valuesFile=" + filepath.Join(dir, "values.yaml"),
			"--runtime.cluster=east", "--traffic.edges=" + trafficAddress, "--traffic.secretFile=" + w.edge.secret,
		},
	})
	return nil
}
