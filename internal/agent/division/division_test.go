package division_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/agent/division"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// duration is that of the Leases. A busy machine must not expire one that lives.
const duration = 4 * time.Second

// keys are what replicas divide.
func keys() []string {
	all := make([]string, 30)
	for i := range all {
		all[i] = fmt.Sprintf("apps/app-%d", i)
	}
	return all
}

// workers notes which replica works on which key.
type workers struct {
	mu    sync.Mutex
	on    map[string]string
	twice []string
}

// enter notes a worker, and what it meets there.
func (w *workers) enter(key, replica string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.on[key]; other != "" {
		w.twice = append(w.twice, fmt.Sprintf("%s and %s work on %s", other, replica, key))
	}
	w.on[key] = replica
}

func (w *workers) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.on, key)
}

// replica is a process that has a share, on a connection of its own.
type replica struct {
	*division.Division
	name    string
	gate    kubetest.Gate
	cluster *kube.Cluster
	stop    func()
}

// start runs a replica that works on every key that it owns, again and again.
func start(t *testing.T, cluster *kubetest.Cluster, namespace, name string, all *workers) *replica {
	t.Helper()
	r := &replica{name: name}
	r.cluster = cluster.Connect(t, r.gate.Option)
	r.cluster.Namespace = namespace
	options := division.Options{Cluster: r.cluster, Name: "agents", Identity: name, Duration: duration}
	if testing.Verbose() {
		options.Log = slog.New(slog.NewTextHandler(t.Output(), nil)).With("replica", name)
	}
	r.Division = division.New(options)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	for _, key := range keys() {
		running.Go(func() { r.work(ctx, key, all) })
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(r.stop)
	return r
}

// work works on a key in short runs.
func (r *replica) work(ctx context.Context, key string, all *workers) {
	for ctx.Err() == nil {
		if working, end, owned := r.Begin(ctx, key); owned {
			all.enter(key, r.name)
			select {
			case <-working.Done():
			case <-time.After(20 * time.Millisecond):
			}
			all.leave(key)
			end()
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// owned is how many keys a replica owns.
func (r *replica) owned() (count int) {
	for _, key := range keys() {
		if r.Owns(key) {
			count++
		}
	}
	return count
}

// divided waits until replicas own everything together, each a share.
func divided(t *testing.T, replicas ...*replica) {
	t.Helper()
	programs.Until(t, fmt.Sprintf("%d replicas own all keys", len(replicas)), func() bool {
		sum := 0
		for _, one := range replicas {
			owned := one.owned()
			if owned == 0 {
				return false
			}
			sum += owned
		}
		return sum == len(keys())
	})
}

// TestDivision: replicas join, leave in order, and disappear. What one has moves to the
// others, and two never work on one key.
func TestDivision(t *testing.T) {
	cluster := kubetest.Shared(t)
	namespace := cluster.Namespace(t)
	all := &workers{on: map[string]string{}}
	one := start(t, cluster, namespace, "one", all)
	divided(t, one)
	two := start(t, cluster, namespace, "two", all)
	three := start(t, cluster, namespace, "three", all)
	divided(t, one, two, three)
	for _, r := range []*replica{one, two, three} {
		for _, key := range keys() {
			if shown := must.Get(division.Owner(t.Context(), cluster.Cluster, namespace, "agents", key))(t); r.Owns(key) != (shown == r.name) {
				t.Errorf("the owner of %s is shown as %s; %s owns it: %t", key, shown, r.name, r.Owns(key))
			}
		}
	}

	// One that ends in order gives its share away at once.
	began := time.Now()
	three.stop()
	divided(t, one, two)
	t.Logf("the share of a replica that ended moved after %s", time.Since(began).Round(time.Millisecond))

	// One that is cut off stops by itself, and others take over.
	began = time.Now()
	two.gate.Handle(func(*http.Request, kubetest.Send) (*http.Response, error) {
		return nil, errors.New("the network is away")
	})
	divided(t, one)
	if took := time.Since(began); took < duration/2 {
		t.Errorf("the share of a replica moved after %s, when its Lease was valid", took)
	}
	if two.owned() > 0 {
		t.Error("a replica that is cut off still owns keys")
	}
	// It comes back as another member.
	two.gate.Handle(nil)
	divided(t, one, two)

	// A leader that reconciles everything waits for the last of them.
	alone := make(chan error, 1)
	go func() { alone <- division.AwaitNone(t.Context(), cluster.Connect(t), "other") }()
	must.Do(t, <-alone)
	go func() { alone <- division.AwaitNone(t.Context(), one.cluster, "agents") }()
	two.stop()
	divided(t, one)
	select {
	case <-alone:
		t.Error("a replica divides, and is not waited for")
	default:
	}
	one.stop()
	must.Do(t, <-alone)
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, twice := range all.twice {
		t.Error(twice)
	}
}

// TestFence: a write of a replica whose Lease has run out is refused before it is sent,
// although its context was not cancelled yet, and what it began is cancelled then.
func TestFence(t *testing.T) {
	cluster := kubetest.Shared(t)
	all := &workers{on: map[string]string{}}
	r := start(t, cluster, cluster.Namespace(t), "one", all)
	divided(t, r)
	working, end, owned := r.Begin(t.Context(), keys()[0])
	if !owned {
		t.Fatal("a key of the replica cannot be claimed")
	}
	defer end()
	boxes := r.cluster.Client.CoreV1().ConfigMaps(r.cluster.Namespace)
	write := func(ctx context.Context, name string) error {
		_, err := boxes.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	must.Do(t, write(working, "in-time"))
	r.gate.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if request.Method == http.MethodPut {
			return nil, errors.New("renewals are lost")
		}
		return send(request)
	})
	// The values of the context without its end: what a goroutine has that runs on before
	// the end is signalled.
	paused := context.WithoutCancel(working)
	programs.Until(t, "writes are refused", func() bool {
		return write(paused, "late") != nil || boxes.Delete(t.Context(), "late", metav1.DeleteOptions{}) != nil
	})
	<-working.Done()
	if _, err := boxes.Get(t.Context(), "late", metav1.GetOptions{}); err == nil {
		t.Error("the late write is there")
	}
}
