package devcluster_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// A reader that follows a log gets all of it and is let go at the end.
func TestLogsAreFollowed(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, demoPod("demo", "args: [--log-every=50ms]", "restartPolicy: Never"))
	pod := waitForPod(t, cluster, namespace, "demo", podReady)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream := must.Get(cluster.Client.CoreV1().Pods(namespace).GetLogs("demo", &corev1.PodLogOptions{Follow: true}).Stream(ctx))(t)
	defer stream.Close()
	text := readUntil(t, stream, "still here")
	mustPost(t, demoAddress(pod), "/exit?code=4")
	rest, err := io.ReadAll(io.LimitReader(stream, 1<<20))
	if err != nil {
		t.Fatalf("the log does not end with the container: %v", err)
	}
	text += string(rest)
	for _, want := range []string{"msg=starting", `uri="/exit?code=4"`, "msg=crashing"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log does not contain %q:\n%s", want, text)
		}
	}
	// The same log is there afterwards.
	if again := readLog(t, cluster, namespace, &corev1.PodLogOptions{}); again != text {
		t.Errorf("the log is now\n%s\nwas\n%s", again, text)
	}
}

func TestLogOfPreviousContainer(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, demoPod("demo", "", ""))
	pod := waitForPod(t, cluster, namespace, "demo", podReady)
	mustPost(t, demoAddress(pod), "/exit?code=4")
	again := waitForPod(t, cluster, namespace, "demo", restarted(1))
	if ended := containerStatus(again).LastTerminationState.Terminated; ended == nil || ended.ExitCode != 4 {
		t.Errorf("the container's last end is %+v, want exit code 4", ended)
	}
	previous := readLog(t, cluster, namespace, &corev1.PodLogOptions{Previous: true})
	current := readLog(t, cluster, namespace, &corev1.PodLogOptions{})
	if !strings.Contains(previous, "msg=crashing") || strings.Contains(current, "msg=crashing") {
		t.Errorf("the previous log is\n%s\nand the current one\n%s", previous, current)
	}
}

func TestLogSelection(t *testing.T) {
	t.Parallel()
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, demoPod("demo", "args: [--exit-after=500ms, --log-every=10ms, --exit-code=0]", "restartPolicy: Never"))
	waitForPod(t, cluster, namespace, "demo", func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodSucceeded {
			return errNotYet(pod)
		}
		return nil
	})
	all := readLog(t, cluster, namespace, &corev1.PodLogOptions{})
	lines := strings.SplitAfter(strings.TrimSuffix(all, "\n"), "\n")
	two := int64(2)
	if tail := readLog(t, cluster, namespace, &corev1.PodLogOptions{TailLines: &two}); tail != strings.Join(lines[len(lines)-2:], "")+"\n" {
		t.Errorf("the last two lines are %q, of\n%s", tail, all)
	}
	if start := readLog(t, cluster, namespace, &corev1.PodLogOptions{LimitBytes: &two}); start != all[:2] {
		t.Errorf("the first two bytes are %q, of\n%s", start, all)
	}
	for line := range strings.Lines(readLog(t, cluster, namespace, &corev1.PodLogOptions{Timestamps: true})) {
		stamp, text, _ := strings.Cut(line, " ")
		if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil || !strings.Contains(all, strings.TrimSpace(text)) {
			t.Errorf("line %q does not start with a time stamp: %v", line, err)
		}
	}
}

func readLog(t *testing.T, cluster *kubetest.Cluster, namespace string, options *corev1.PodLogOptions) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text := must.Get(cluster.Client.CoreV1().Pods(namespace).GetLogs("demo", options).DoRaw(ctx))(t)
	return string(text)
}

// readUntil reads from a stream that goes on, until the text appears.
func readUntil(t *testing.T, stream io.Reader, want string) string {
	t.Helper()
	var text strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(text.String(), want) {
		n, err := stream.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			t.Fatalf("the log ends without %q: %v:\n%s", want, err, text.String())
		}
	}
	return text.String()
}
