package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/up"
)

// TestSlipway is everything that needs the program, which is built once.
func TestSlipway(t *testing.T) {
	useBinary(t)
	t.Run("usage", usage)
	t.Run("documents", documents)
	t.Run("deploy", deploy)
	t.Run("up", life)
}

// life is that of one state directory, from the first start to a reset, with the
// program as a newcomer has it from a release.
func life(t *testing.T) {
	useRelease(t)
	dir := filepath.Join(t.TempDir(), "state with a space")
	kubeconfig := filepath.Join(dir, "devcluster", "kubeconfig")
	for _, step := range []struct {
		name string
		run  func(t *testing.T, dir, kubeconfig string)
	}{
		{"first start", firstStart},
		{"second start delivers what is pushed", delivers},
		{"third start keeps everything", thirdStart},
		{"kill -9 leaves nothing", killed},
		{"state of an older version is adopted", adopts},
		{"reset starts afresh", reset},
		{"dead edge ends it", deadEdge},
		{"dead cluster ends it", deadCluster},
		{"second Ctrl-C kills", impatient},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, dir, kubeconfig) }) {
			return
		}
	}
}

// usage: what is wrong on the command line is reported before anything starts.
func usage(t *testing.T) {
	for _, test := range []struct {
		name      string
		arguments []string
		says      string
		code      int
	}{
		{"output", []string{"--output", "yaml"}, "neither table nor json", 2},
		{"flag", []string{"--rest"}, "unknown flag", 2},
		{"argument", []string{"now"}, "now", 2},
		{"offset", []string{"--port-offset", "60000"}, "between 1 and 65535", 1},
		{"timeout", []string{"--timeout", "-1s"}, "--timeout", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			arguments := append([]string{"--dir", filepath.Join(t.TempDir(), "state")}, test.arguments...)
			if said := fails(t, test.code, arguments...); !strings.Contains(said, test.says) {
				t.Errorf("it said %q, want %q", said, test.says)
			}
		})
	}
}

func firstStart(t *testing.T, dir, kubeconfig string) {
	s := start(t, "--dir", dir)
	s.AwaitOutput(t, s.Out, "Ctrl-C stops everything")
	shown := s.Out.String()
	for _, text := range []string{
		"devcluster: waiting for the API server\n", "slipway is up.", "https://127.0.0.1:6443", kubeconfig,
		"2 of 2 replicas ready", "slipway.dev/demo:v1", "git clone http://127.0.0.1:8085/demo.git", "change it to v2", fmt.Sprintf("kill %d", s.PID()),
		"edge: waiting for", "http://127.0.0.1:8080", "https://127.0.0.1:8443", "curl http://demo.localhost:8080/api",
		"curl http://demo.localhost:8000/api",
		"http://127.0.0.1:8085/config.git", "installation complete, with Git Source apps",
	} {
		if !strings.Contains(shown, text) {
			t.Errorf("%q is missing in:\n%s", text, shown)
		}
	}
	requireReadyDemo(t, connect(t, kubeconfig), "slipway.dev/demo:v1")
	if !strings.Contains(shown, "sign in as admin@localhost with ") {
		t.Errorf("the password of the admin is missing in:\n%s", shown)
	}
	requireHello(t, connect(t, kubeconfig), "slipway.dev/demo:v1")
	// Renders are processes too, and end.
	programs.Eventually(t, func(context.Context) error {
		if running := clusterProcesses(t); len(running) != 8 {
			return fmt.Errorf("slipway, the cluster, the platform, the agent, the edge and three Pods should run, but there are: %s", strings.Join(running, ", "))
		}
		return nil
	})

	said := fails(t, 1, "--dir", dir, "--reset")
	if !strings.Contains(said, fmt.Sprintf("pid %d", s.PID())) || !strings.Contains(said, dir) {
		t.Errorf("a second one in the same directory said: %s", said)
	}
	said = fails(t, 1, "--dir", t.TempDir())
	for _, text := range []string{"port 6443", "port 8080", "port 8443", "port 8085", "--port-offset", "slipway-devclu"} {
		if !strings.Contains(said, text) {
			t.Errorf("a second one with the same ports does not say %q: %s", text, said)
		}
	}

	walkthroughs(t, dir)
	makeConfigMap(t, connect(t, kubeconfig))
	requireHealed(t, connect(t, kubeconfig))
	s.signal(t, syscall.SIGINT)
	s.requireExit(t, 0)
	if _, after, _ := strings.Cut(s.Out.String(), "agent: stopped"); !strings.Contains(after, "devcluster: stopped") {
		t.Error("it did not say that it stopped, the cluster last")
	}
	requireNothingRuns(t)
}

// thirdStart is at other ports than the second: all that was pushed is there, and
// the Application finds its repository. At the end the user deletes it.
func thirdStart(t *testing.T, dir, kubeconfig string) {
	s, facts := startJSON(t, "--dir", dir)
	cluster := connect(t, kubeconfig)
	if facts.Kubeconfig != kubeconfig || facts.Dir != dir || facts.PID != s.PID() {
		t.Errorf("facts are %+v", facts)
	}
	if !hasConfigMap(t, cluster) {
		t.Error("the ConfigMap is gone")
	}
	requireJoined(t, facts)
	requireComplete(t, facts)
	requireHello(t, cluster, "slipway.dev/demo:v4")
	requireReadyDemo(t, cluster, "slipway.dev/demo:v2")
	if version := askedVersion(t, hint(t, facts, "send a request to one Pod")); version != "v2" {
		t.Errorf("after a restart a Pod answers version %q", version)
	}
	if output := shell(t, hint(t, facts, "look around")); !strings.Contains(output, "pod/demo-") {
		t.Errorf("look around: %s", output)
	}
	if output := shell(t, hint(t, facts, "without kubectl")); !strings.Contains(output, "Ready") {
		t.Errorf("without kubectl: %s", output)
	}
	clone := newClone(t, facts)
	clone.change(t, hint(t, facts, "change it to v3"))
	clone.push(t)
	awaitApplication(t, cluster, "Synced", "Healthy", clone.commit(t))
	requireReadyDemo(t, cluster, "slipway.dev/demo:v3")

	deleteApplication(t, cluster)
	shell(t, hint(t, facts, "stop"))
	s.requireExit(t, 0)
	requireNothingRuns(t)
}

// requireJoined: the platform has the runtime and its Application, and does not
// show the password again.
func requireJoined(t *testing.T, facts up.Facts) {
	t.Helper()
	if detail := row(t, facts, "platform").Detail; strings.Contains(detail, "sign in") {
		t.Errorf("the password is shown again: %s", detail)
	}
	runtimes := strings.Fields(shell(t, hint(t, facts, "see the runtimes")))
	for _, word := range []string{"slipway", "devcluster", "tunnel", "yes"} {
		if !slices.Contains(runtimes, word) {
			t.Errorf("the platform tells of its runtimes without %q: %v", word, runtimes)
		}
	}
	awaitOutput(t, hint(t, facts, "see the Applications"), "demo")
}

func killed(t *testing.T, dir, kubeconfig string) {
	s, facts := startJSON(t, "--dir", dir)
	if detail := row(t, facts, "demo").Detail; !strings.Contains(detail, "deleted by you") {
		t.Errorf("the demo is %q", detail)
	}
	cluster := connect(t, kubeconfig)
	if exists(t, deploymentError(t, cluster)) {
		t.Error("the Deployment has outlived its Application")
	}
	applyOldDemo(t, cluster)
	s.signal(t, syscall.SIGKILL)
	s.requireExit(t, -1)
	requireNothingRuns(t)
	makeOld(t, dir)
}

func reset(t *testing.T, dir, kubeconfig string) {
	s, _ := startJSON(t, "--dir", dir, "--reset")
	cluster := connect(t, kubeconfig)
	if hasConfigMap(t, cluster) {
		t.Error("the ConfigMap has survived the reset")
	}
	if !hasIngress(t, cluster) {
		t.Error("the Ingress was not applied again")
	}
	requireReadyDemo(t, cluster, "slipway.dev/demo:v1")
	// A start right after a kill waits for what the killed one has left.
	s.signal(t, syscall.SIGKILL)
	s.Wait(t)
}

func deadCluster(t *testing.T, dir, _ string) {
	s, facts := startJSON(t, "--dir", dir)
	cluster := row(t, facts, "devcluster")
	must.Do(t, syscall.Kill(cluster.PID, syscall.SIGKILL))
	s.requireExit(t, 1)
	for _, text := range []string{"devcluster ended by itself (signal: killed)", "the end of " + cluster.Log} {
		if !strings.Contains(s.Log.String(), text) {
			t.Errorf("%q is missing in:\n%s", text, s.Log)
		}
	}
	requireNothingRuns(t)
}

func impatient(t *testing.T, dir, _ string) {
	s, facts := startJSON(t, "--dir", dir)
	// A stopped process hears no SIGTERM.
	must.Do(t, syscall.Kill(row(t, facts, "devcluster").PID, syscall.SIGSTOP))
	s.signal(t, syscall.SIGINT)
	s.AwaitOutput(t, s.Log, "devcluster: stopping")
	s.signalUntilExit(t, syscall.SIGINT)
	s.requireExit(t, 1)
	if !strings.Contains(s.Log.String(), "devcluster: killed, as requested") {
		t.Errorf("it did not say that it killed:\n%s", s.Log)
	}
	requireNothingRuns(t)
}

// requireReadyDemo looks at the cluster, not at what slipway prints.
func requireReadyDemo(t *testing.T, cluster *kube.Cluster, image string) {
	t.Helper()
	// After a restart the Pods respond before the Deployment's status has caught up.
	deployments := cluster.Client.AppsV1().Deployments("demo")
	found := kubetest.WaitFor(t, deployments, kube.Named("demo"), time.Minute, func(list []*appsv1.Deployment) error {
		if len(list) != 1 || list[0].Status.ReadyReplicas != 2 {
			return errors.New("not 2 replicas are ready")
		}
		return nil
	})
	if got := found[0].Spec.Template.Spec.Containers[0].Image; got != image {
		t.Errorf("the demo's image is %s, want %s", got, image)
	}
}

const configMapName = "made-by-the-user"

func makeConfigMap(t *testing.T, cluster *kube.Cluster) {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMapName}}
	must.Get(cluster.Client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}))(t)
}

func hasConfigMap(t *testing.T, cluster *kube.Cluster) bool {
	t.Helper()
	_, err := cluster.Client.CoreV1().ConfigMaps("default").Get(t.Context(), configMapName, metav1.GetOptions{})
	return exists(t, err)
}

func hasIngress(t *testing.T, cluster *kube.Cluster) bool {
	t.Helper()
	_, err := cluster.Client.NetworkingV1().Ingresses("demo").Get(t.Context(), "demo", metav1.GetOptions{})
	return exists(t, err)
}

func exists(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// askedVersion runs the printed curl command and returns the version that the
// Pod returns.
func askedVersion(t *testing.T, command string) string {
	t.Helper()
	var answer struct{ Version string }
	output := shell(t, strings.Replace(command, "curl ", "curl --silent --show-error --fail ", 1))
	if err := json.Unmarshal([]byte(output), &answer); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, output)
	}
	return answer.Version
}
