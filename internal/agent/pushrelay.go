package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

const (
	// relaySuffix follows the name of the Lease in that of the ConfigMap.
	relaySuffix = "-pushes"
	// maxRelayedPushes bounds the pushes in the ConfigMap, and relayQueueSize
	// those that wait to be written. It fills up only while no replica leads,
	// and a new leader polls Git anyway.
	maxRelayedPushes = 64
	relayQueueSize   = 64
	// maxRelayedBytes bounds one push.
	maxRelayedBytes = 8 << 10
	relayTimeout    = 10 * time.Second
	// relayRetention is how long a push stays in the ConfigMap for replicas that divide the
	// Applications: each of them reads it. One that misses it polls at the next interval.
	relayRetention = 3 * time.Second
)

// pushRelay passes pushes from the replica that received them to the leader, and to
// all others if they divide the Applications, through a ConfigMap. A push only triggers a
// poll of Git, so that a duplicate or a lost one does no harm.
type pushRelay struct {
	// cluster and namespace have the ConfigMap, beside the Lease.
	cluster   *kube.Cluster
	namespace string
	// name is that of the ConfigMap. It is empty with a single replica, which
	// needs no relay.
	name string // empty: there is no other replica
	// deliver returns false when this replica does not lead. observe gets every push
	// where the Applications are divided, and is nil otherwise.
	deliver func(webhook.Push) bool
	observe func(webhook.Push)
	count   func(outcome string)
	// failed reports the result of reading the ConfigMap.
	failed func(error)
	log    *slog.Logger

	queue chan webhook.Push

	mu      sync.Mutex
	content map[string]string
	// observed are the keys that were observed, and delivered those that were delivered
	// and may not be deleted yet, with the time.
	observed  map[string]bool
	delivered map[string]time.Time
	changed   chan struct{}
}

// newPushRelay returns a relay that is not running.
func (a *agent) newPushRelay() *pushRelay {
	m := &pushRelay{
		cluster: a.options.Cluster, namespace: a.options.Cluster.Namespace, deliver: a.deliver, log: a.log,
		count: func(outcome string) { a.metrics.relayed.WithLabelValues(outcome).Inc() },
		queue: make(chan webhook.Push, relayQueueSize), observed: map[string]bool{}, delivered: map[string]time.Time{}, changed: make(chan struct{}, 1),
	}
	if a.options.Features.Division.Enabled {
		m.observe = a.leading.polled
	}
	if a.options.Lease != "" {
		m.name = a.options.Lease + relaySuffix
	}
	m.failed = a.logOnce("the ConfigMap "+m.namespace+"/"+m.name, nil)
	return m
}

// run forwards and receives pushes until the context is done.
func (m *pushRelay) run(ctx context.Context) {
	if m.name == "" {
		return
	}
	var parts sync.WaitGroup
	parts.Go(func() {
		_ = kube.Follow(ctx, m.cluster.Client.CoreV1().ConfigMaps(m.namespace), kube.Named(m.name), m.failed, func(found []*corev1.ConfigMap) {
			content := map[string]string{}
			if len(found) > 0 {
				content = found[0].Data
			}
			m.mu.Lock()
			m.content = content
			m.mu.Unlock()
			m.checkNow()
		})
	})
	parts.Go(func() { m.send(ctx) })
	parts.Go(func() { m.receive(ctx) })
	parts.Wait()
}

// forward queues a push for the leader. It never blocks: a webhook must be
// acknowledged within seconds.
func (m *pushRelay) forward(push webhook.Push) {
	if m.name == "" {
		return // the reconcile loops fetch from Git when they start
	}
	select {
	case m.queue <- push:
	default:
		m.count("dropped")
	}
}

// checkNow triggers a delivery of the ConfigMap's content.
func (m *pushRelay) checkNow() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// send writes queued pushes into the ConfigMap.
func (m *pushRelay) send(ctx context.Context) {
	for {
		select {
		case push := <-m.queue:
			m.write(ctx, push)
		case <-ctx.Done():
			return
		}
	}
}

// write adds one push under a random key, so that replicas do not overwrite
// each other.
func (m *pushRelay) write(ctx context.Context, push webhook.Push) {
	entry, err := json.Marshal(push)
	m.mu.Lock()
	// Read from the last watch event, so that the bound is approximate.
	full := len(m.content) >= maxRelayedPushes
	m.mu.Unlock()
	if err != nil || len(entry) > maxRelayedBytes || full {
		m.count("dropped")
		return
	}
	key := strings.ToLower(rand.Text())
	m.mu.Lock()
	m.observed[key] = true // this replica had it when it came in
	m.mu.Unlock()
	if err := m.patch(ctx, map[string]any{key: string(entry)}); err != nil {
		m.count("failed")
		m.log.Warn("cannot relay push to the leader; Git is polled at the next interval",
			"configMap", m.namespace+"/"+m.name, observe.KeyError, err)
		return
	}
	m.count("passed")
}

// patch sets keys of the ConfigMap; nil deletes one. It creates the ConfigMap
// on first use, where another replica may win the race. A merge patch touches
// only its keys, so that replicas do not conflict.
func (m *pushRelay) patch(ctx context.Context, data map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	boxes := m.cluster.Client.CoreV1().ConfigMaps(m.namespace)
	_, err = boxes.Patch(ctx, m.name, types.MergePatchType, body, metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	content := map[string]string{}
	for key, value := range data {
		if text, ok := value.(string); ok {
			content[key] = text
		}
	}
	if len(content) == 0 {
		return nil
	}
	_, err = boxes.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Data: content}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = boxes.Patch(ctx, m.name, types.MergePatchType, body, metav1.PatchOptions{})
	}
	return err
}

// receive delivers pushes while this replica leads.
func (m *pushRelay) receive(ctx context.Context) {
	for {
		select {
		case <-m.changed:
			m.deliverPending(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// deliverPending delivers new pushes and deletes them from the ConfigMap. A
// push is delivered before it is deleted: after a crash in between the next
// leader delivers it again.
func (m *pushRelay) deliverPending(ctx context.Context) {
	m.mu.Lock()
	content := maps.Clone(m.content)
	maps.DeleteFunc(m.delivered, func(key string, _ time.Time) bool { _, there := content[key]; return !there })
	m.mu.Unlock()
	m.observeNew(content)
	gone := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(content)) {
		var push webhook.Push
		at, before := m.delivered[key]
		if !before {
			if json.Unmarshal([]byte(content[key]), &push) == nil && !m.deliver(push) {
				return // another replica leads and delivers it
			}
			at = time.Now()
			m.delivered[key] = at
		}
		if m.observe != nil && time.Since(at) < relayRetention {
			time.AfterFunc(relayRetention, m.checkNow)
			continue
		}
		gone[key] = nil // also one that could not be deleted before
	}
	if len(gone) == 0 {
		return
	}
	if err := m.patch(ctx, gone); err != nil {
		m.log.Warn("cannot delete delivered pushes", "configMap", m.namespace+"/"+m.name, observe.KeyError, err)
	}
}

// observeNew polls what new pushes name for the Applications of this replica.
func (m *pushRelay) observeNew(content map[string]string) {
	if m.observe == nil {
		return
	}
	for key, text := range content {
		m.mu.Lock()
		known := m.observed[key]
		m.observed[key] = true
		m.mu.Unlock()
		var push webhook.Push
		if !known && json.Unmarshal([]byte(text), &push) == nil {
			m.observe(push)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// A key of this replica may be on its way into the ConfigMap; at most as many as there
	// can be pushes.
	if len(m.observed) > 2*maxRelayedPushes {
		maps.DeleteFunc(m.observed, func(key string, _ bool) bool { _, there := content[key]; return !there })
	}
}
