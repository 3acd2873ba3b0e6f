package watch

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/kube"
)

const secretResource = "secrets"

// secretSources returns the sources of the metadata of Secrets, one for each
// namespace. Releases of Helm are left out: they are many, large and never needed.
func (w *Watcher) secretSources() []source {
	client := w.cluster.Metadata.Resource(corev1.SchemeGroupVersion.WithResource(secretResource))
	selected := metav1.ListOptions{FieldSelector: fields.OneTermNotEqualSelector("type", helmRelease).String()}
	var sources []source
	for _, namespace := range w.secretScopes() {
		feed := feedName{secretResource, namespace}
		sources = append(sources, source{
			name: feed, example: &metav1.PartialObjectMetadata{},
			requests: kube.NewListWatcher(client.Namespace(namespace), selected),
			store: func(ctx context.Context) cache.ReflectorStore {
				return &secretStore{ctx: ctx, reader: w.secrets, feed: feed}
			},
			observe: func(err error) time.Duration {
				if err == nil {
					return 0
				}
				if apierrors.IsForbidden(err) {
					w.secrets.unwatch(feed)
				}
				return backoff.Jitter(w.timing.deniedRetry, 0.3)
			},
		})
	}
	return sources
}

// secretStore is the store of a reflector of metadata. It keeps nothing, and triggers
// the read of wanted Secrets that changed.
type secretStore struct {
	ctx    context.Context
	reader *secretReader
	feed   feedName
}

// Transformer makes the reflector trim metadata on arrival.
func (*secretStore) Transformer() cache.TransformFunc { return trimming }

// Add is called for a new Secret.
func (b *secretStore) Add(object any) error {
	b.reader.observe(identify(object))
	return nil
}

// Update is called for a changed Secret.
func (b *secretStore) Update(object any) error {
	b.reader.observe(identify(object))
	return nil
}

// Delete is called for a Secret that is gone. It is read even so: it may have been
// created again already.
func (b *secretStore) Delete(object any) error {
	b.reader.observe(identify(object))
	return nil
}

// Replace is called with all Secrets: at first, and when the reflector has
// missed events.
func (b *secretStore) Replace(objects []any, _ string) error {
	present := make(map[name]string, len(objects))
	for _, object := range objects {
		at, version := identify(object)
		present[at] = version
	}
	b.reader.compare(b.feed.namespace, present)
	b.reader.watcher.queueListed(b.ctx, b.feed)
	return nil
}

// Resync is never called: there is no resync period.
func (*secretStore) Resync() error { return nil }

// observe queues a wanted Secret for reading if its version is newer.
func (k *secretReader) observe(at name, version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if secret := k.wanted[at]; secret != nil && secret.isNewer(version) {
		k.readSoon(at)
	}
}

// compare queues the wanted Secrets of a namespace whose versions differ from a
// complete list.
func (k *secretReader) compare(namespace string, present map[name]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.unwatched, namespace)
	for at, secret := range k.wanted {
		if namespace != "" && at.namespace != namespace {
			continue
		}
		version, there := present[at]
		if there && secret.isNewer(version) || !there && secret.published {
			k.readSoon(at)
		}
	}
}

// isNewer reports whether a version is newer than the published one. The watch may
// lag behind a read, so an older version is no reason to read.
func (s *wantedSecret) isNewer(version string) bool {
	if s.version == version {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, s.version)
	return err != nil || order > 0
}

// unwatch records that Secrets of a namespace may not be watched, so that no list
// will come, and polls the wanted ones instead.
func (k *secretReader) unwatch(feed feedName) {
	k.mu.Lock()
	known := k.unwatched[feed.namespace]
	k.unwatched[feed.namespace] = true
	k.mu.Unlock()
	if known {
		return
	}
	k.watcher.options.Log.Info("watch of Secrets is forbidden: polling those that are needed",
		"namespace", feed.namespace, "period", k.watcher.timing.deniedRetry)
	k.watcher.listed(feed)
	// Wakes Next, so that its caller sees that Synced may be true now.
	k.watcher.queue.set(refOf(name{namespace: feed.namespace}), item{silent: true})
}

// readUnwatched queues all wanted Secrets of namespaces without a watch.
func (k *secretReader) readUnwatched() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.unwatched) == 0 {
		return
	}
	for at := range k.wanted {
		if k.unwatched[""] || k.unwatched[at.namespace] {
			k.readSoon(at)
		}
	}
}
