package runtimecmd_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/programs"
)

// releasePatience bounds an installation of a test.
const releasePatience = 2 * time.Minute

// releaseWorld is a platform, and a cluster of its own in which the test takes the
// place of a node: Pods of the release become ready, and the agent of the Deployment
// runs as a process with the options, the key and the values that the chart gave it.
type releaseWorld struct {
	*clitest.PlatformWorld
	cluster   *kubetest.Cluster
	namespace string
	agentLog  programs.Output
	// asleep is set while the node does nothing.
	asleep atomic.Bool
}

func newReleaseWorld(t *testing.T, namespace string) *releaseWorld {
	t.Helper()
	t.Parallel() // it mostly waits
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	w := &releaseWorld{PlatformWorld: clitest.NewPlatformWorld(t), cluster: cluster, namespace: namespace}
	w.Login(t)
	w.Environ = []string{"KUBECONFIG=" + cluster.Kubeconfig}
	cluster.MakePodsReady(t, namespace, w.asleep.Load)
	ctx, stop := context.WithCancel(context.Background())
	var node sync.WaitGroup
	node.Go(func() { w.beNode(ctx, t.TempDir()) })
	t.Cleanup(func() {
		stop()
		node.Wait()
		if t.Failed() {
			programs.ShowLog(t, "the agent", w.agentLog.String())
		}
	})
	return w
}

// beNode runs the agent while there is a Deployment of it.
func (w *releaseWorld) beNode(ctx context.Context, dir string) {
	ticks := time.NewTicker(100 * time.Millisecond)
	defer ticks.Stop()
	var agent *exec.Cmd
	stop := func() {
		if agent != nil {
			_ = agent.Process.Signal(syscall.SIGTERM) // it may be over
			_ = agent.Wait()
			agent = nil
		}
	}
	defer stop()
	for {
		deployment, err := w.cluster.Client.AppsV1().Deployments(w.namespace).Get(ctx, "slipway-agent", metav1.GetOptions{})
		switch {
		case err == nil && deployment.DeletionTimestamp != nil:
			stop()
			w.hold(ctx, deployment, false)
		case err == nil && agent == nil && !w.asleep.Load():
			if w.hold(ctx, deployment, true) {
				agent = w.startAgent(ctx, deployment, dir)
			}
		case err != nil && ctx.Err() == nil:
			stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// hold has the Deployment be there for as long as its agent runs, as a kubelet does
// with a Pod: who waits for the end of it waits for the process.
func (w *releaseWorld) hold(ctx context.Context, deployment *appsv1.Deployment, held bool) bool {
	const finalizer = "slipway.dev/runs"
	if slices.Contains(deployment.Finalizers, finalizer) == held {
		return true
	}
	if held {
		deployment.Finalizers = append(deployment.Finalizers, finalizer)
	} else {
		deployment.Finalizers = slices.DeleteFunc(deployment.Finalizers, func(one string) bool { return one == finalizer })
	}
	_, err := w.cluster.Client.AppsV1().Deployments(w.namespace).Update(ctx, deployment, metav1.UpdateOptions{})
	return err == nil // or it is done at the next look
}

// StartAgent runs what the chart asks for; nil when something is not there yet.
func (w *releaseWorld) startAgent(ctx context.Context, deployment *appsv1.Deployment, dir string) *exec.Cmd {
	options, err := w.cluster.Client.CoreV1().ConfigMaps(w.namespace).Get(ctx, "slipway-agent", metav1.GetOptions{})
	if err != nil {
		return nil
	}
	files := map[string][]byte{"agent.yaml": []byte(options.Data["agent.yaml"])}
	mounted := map[string][2]string{"key": {"slipway-user-token", "token"}, "values.yaml": {"slipway-values", "values.yaml"}}
	args := []string{
		"agent", "--configFile=" + filepath.Join(dir, "agent.yaml"), "--outbound.allow=127.0.0.1,::1", "--platform.keyFile=" + filepath.Join(dir, "key"), "--runtime.valuesFile=" + filepath.Join(dir, "values.yaml"),
		"--platform.stateDir=" + filepath.Join(dir, "state"), "--sources.cacheDir=" + filepath.Join(dir, "sources"), "--log.format=json",
		"--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0", "--admin.address=127.0.0.1:0", "--access.address=127.0.0.1:0",
	}
	// The volume with the Git token, as a kubelet mounts it.
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Name == "git" {
			mounted["git"] = [2]string{volume.Secret.SecretName, volume.Secret.Items[0].Key}
			args = append(args, "--sources.credentials.passwordFile="+filepath.Join(dir, "git"))
		}
	}
	for name, from := range mounted {
		found, err := w.cluster.Client.CoreV1().Secrets(w.namespace).Get(ctx, from[0], metav1.GetOptions{})
		if err != nil {
			return nil
		}
		files[name] = found.Data[from[1]]
	}
	for name, content := range files {
		if os.WriteFile(filepath.Join(dir, name), content, 0o600) != nil {
			return nil
		}
	}
	agent := w.Command(context.Background(), args)
	agent.Env = append(agent.Env, "POD_NAMESPACE="+w.namespace)
	agent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	agent.Stderr = &w.agentLog
	if agent.Start() != nil {
		return nil
	}
	return agent
}

// release runs a command line of the life of a runtime, which takes its time.
func (w *releaseWorld) release(t *testing.T, line string) clitest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), releasePatience)
	defer cancel()
	command := w.Command(ctx, strings.Fields(line))
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return clitest.Result{Code: command.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// ends runs a command line that has to end with a code and to print all that is wanted.
func (w *releaseWorld) ends(t *testing.T, line string, code int, wanted ...string) clitest.Result {
	t.Helper()
	got := w.release(t, line)
	if got.Code != code {
		t.Fatalf("%s: ended with %d, not %d:\n%s%s", line, got.Code, code, got.Stdout, got.Stderr)
	}
	// Libraries do not write between the lines of a command.
	if foreign := regexp.MustCompile(`(?m)^([EWIF]\d{4} \d\d:|\d{4}/\d\d/\d\d \d\d:\d\d:\d\d |time=).*$`).FindString(got.Stdout + got.Stderr); foreign != "" {
		t.Errorf("%s: a library logs %s", line, foreign)
	}
	for _, part := range wanted {
		if !strings.Contains(got.Stdout+got.Stderr, part) {
			t.Errorf("%s: %q is missing in\n%s%s", line, part, got.Stdout, got.Stderr)
		}
	}
	return got
}
