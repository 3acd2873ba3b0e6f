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
	// mailboxSuffix makes the name of the ConfigMap from that of the Lease.
	mailboxSuffix = "-pushes"
	// mailboxEntries and mailboxQueue bound what may wait: nobody works then, and
	// whoever begins asks Git anyway.
	mailboxEntries = 64
	mailboxQueue   = 64
	// mailboxEntryBytes bounds one push.
	mailboxEntryBytes = 8 << 10
	mailboxTimeout    = 10 * time.Second
)

// mailbox is a ConfigMap by which a replica that does not lead tells the one
// that does of pushes. A push in it is a reason to ask Git and nothing else, so
// that one too many or one that is lost does no harm.
type mailbox struct {
	cluster   *kube.Cluster
	namespace string
	name      string // empty: there is no other replica
	// deliver is false when this replica does not lead.
	deliver func(webhook.Push) bool
	count   func(outcome string)
	// failed is told when it cannot be read.
	failed func(error)
	log    *slog.Logger

	queue chan webhook.Push

	mu    sync.Mutex
	known map[string]string
	// delivered are keys that are being deleted.
	delivered map[string]bool
	changed   chan struct{}
}

func (a *agent) newMailbox() *mailbox {
	m := &mailbox{
		cluster: a.options.Cluster, namespace: a.options.Cluster.Namespace, deliver: a.leading.pushed, log: a.log,
		count: func(outcome string) { a.metrics.mail.WithLabelValues(outcome).Inc() },
		queue: make(chan webhook.Push, mailboxQueue), delivered: map[string]bool{}, changed: make(chan struct{}, 1),
	}
	if a.options.Lease != "" {
		m.name = a.options.Lease + mailboxSuffix
	}
	m.failed = a.complain("the ConfigMap "+m.namespace+"/"+m.name, nil)
	return m
}

// follow passes pushes on and takes them, until the context is done.
func (m *mailbox) follow(ctx context.Context) {
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
			m.known = content
			m.mu.Unlock()
			m.look()
		})
	})
	parts.Go(func() { m.send(ctx) })
	parts.Go(func() { m.receive(ctx) })
	parts.Wait()
}

// put has a push passed on. It does not wait.
func (m *mailbox) put(push webhook.Push) {
	if m.name == "" {
		return // the loops begin by asking Git
	}
	push.ChangedPaths, push.PathsKnown = nil, false // who works asks Git
	select {
	case m.queue <- push:
	default:
		m.count("dropped")
	}
}

// look has the content looked at again.
func (m *mailbox) look() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// send writes pushes into the ConfigMap.
func (m *mailbox) send(ctx context.Context) {
	for {
		select {
		case push := <-m.queue:
			m.write(ctx, push)
		case <-ctx.Done():
			return
		}
	}
}

func (m *mailbox) write(ctx context.Context, push webhook.Push) {
	entry, err := json.Marshal(push)
	m.mu.Lock()
	full := len(m.known) >= mailboxEntries
	m.mu.Unlock()
	if err != nil || len(entry) > mailboxEntryBytes || full {
		m.count("dropped")
		return
	}
	key := strings.ToLower(rand.Text())
	if err := m.patch(ctx, map[string]any{key: string(entry)}); err != nil {
		m.count("failed")
		m.log.Warn("a push could not be passed on to the replica that works; Git is asked at the next interval",
			"configMap", m.namespace+"/"+m.name, observe.KeyError, err)
		return
	}
	m.count("passed")
}

// patch changes entries of the ConfigMap; nil deletes one.
func (m *mailbox) patch(ctx context.Context, data map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, mailboxTimeout)
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

// receive delivers what is in the ConfigMap while this replica leads.
func (m *mailbox) receive(ctx context.Context) {
	for {
		select {
		case <-m.changed:
			m.deliverAll(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// deliverAll delivers what was not delivered before, and deletes it.
func (m *mailbox) deliverAll(ctx context.Context) {
	m.mu.Lock()
	content := maps.Clone(m.known)
	maps.DeleteFunc(m.delivered, func(key string, _ bool) bool { _, there := content[key]; return !there })
	m.mu.Unlock()
	gone := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(content)) {
		var push webhook.Push
		if !m.delivered[key] && json.Unmarshal([]byte(content[key]), &push) == nil && !m.deliver(push) {
			return // another replica leads
		}
		m.delivered[key] = true
		gone[key] = nil // also one that could not be deleted before
	}
	if len(gone) == 0 {
		return
	}
	if err := m.patch(ctx, gone); err != nil {
		m.log.Warn("pushes that were taken could not be deleted", "configMap", m.namespace+"/"+m.name, observe.KeyError, err)
	}
}
