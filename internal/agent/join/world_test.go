package join_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// patience bounds what a test waits for.
const patience = 60 * time.Second

func TestMain(m *testing.M) { kubetest.Main(m) }

// world is a cluster, a platform, and a key in a file.
type world struct {
	*kubetest.Cluster
	namespace string
	platform  *platform
	keyFile   string
	log       *programs.Output
	state     *platformv1.HeartbeatRequest
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	w := &world{
		Cluster: cluster, namespace: cluster.Namespace(t), platform: newPlatform(t, httptest.NewServer),
		keyFile: filepath.Join(t.TempDir(), "key"), log: &programs.Output{}, state: &platformv1.HeartbeatRequest{},
	}
	w.writeKey(t, goodKey)
	t.Cleanup(func() {
		text := w.log.String()
		if strings.Contains(text, "CANARY") {
			t.Errorf("the log has a secret:\n%s", text)
		}
		if t.Failed() {
			programs.ShowLog(t, "the agent", text)
		}
	})
	return w
}

func (w *world) writeKey(t *testing.T, key string) {
	t.Helper()
	// In one step, as the kubelet does.
	must.Do(t, os.WriteFile(w.keyFile+".new", []byte(key+"\n"), 0o600))
	must.Do(t, os.Rename(w.keyFile+".new", w.keyFile))
}

// Heartbeat is the state of the runtime.
func (w *world) Heartbeat(context.Context) (*platformv1.HeartbeatRequest, error) { return w.state, nil }

func (w *world) options() join.Options {
	options := join.Options{
		Cluster: w.Cluster.Cluster, Namespace: w.namespace, Runtime: "prod", PlatformURL: w.platform.server.URL,
		Key: join.KeyFile(w.keyFile), ClusterName: "test", Version: "1.2.3", ChartVersion: "1.2.0",
		AccessMode: platformv1.AccessMode_ACCESS_MODE_TUNNEL, ComponentNames: []string{"agent"},
		State: w, Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Reporter: kube.Reporter{Controller: "slipway.dev/agent", Instance: "test"},
	}
	join.Hasten(&options)
	return options
}

// replica is a membership that runs.
type replica struct {
	*join.Membership
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// start runs a replica; it ends with the test.
func (w *world) start(t *testing.T, leads bool, changes ...func(*join.Options)) *replica {
	t.Helper()
	options := w.options()
	for _, change := range changes {
		change(&options)
	}
	made := must.Get(join.New(options))(t)
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{Membership: made, cancel: cancel}
	run := func(part func(context.Context) error) {
		r.done.Go(func() {
			if err := part(ctx); err != nil {
				t.Errorf("a replica ended with %v", err)
			}
		})
	}
	run(made.Run)
	if leads {
		run(made.Lead)
	}
	t.Cleanup(r.stop)
	return r
}

func (r *replica) stop() {
	r.cancel()
	r.done.Wait()
}

// awaitPhase waits for a phase.
func (r *replica) awaitPhase(t *testing.T, want join.Phase) join.Status {
	t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		changed := r.Changes()
		status := r.Status()
		if status.Phase == want {
			return status
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("it is %s (%s) and not %s", status.Phase, status.Message, want)
		}
	}
}

// secret waits for a state of the Secret.
func (w *world) secret(t *testing.T, missing func(*corev1.Secret) error) *corev1.Secret {
	t.Helper()
	found := kubetest.WaitFor(t, w.Client.CoreV1().Secrets(w.namespace), kube.Named(join.SecretName), patience, func(found []*corev1.Secret) error {
		if len(found) == 0 {
			return errors.New("there is no Secret")
		}
		return missing(found[0])
	})
	return found[0]
}

// event waits for an Event about the Secret.
func (w *world) event(t *testing.T, reason join.Phase) {
	t.Helper()
	kubetest.WaitFor(t, w.Client.CoreV1().Events(w.namespace), metav1.ListOptions{}, patience, func(found []*corev1.Event) error {
		for _, event := range found {
			if event.Reason == string(reason) && event.InvolvedObject.Name == join.SecretName {
				return nil
			}
		}
		return fmt.Errorf("no Event %s among %d", reason, len(found))
	})
}
