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

// secretSources follow the metadata of Secrets, one for each namespace.
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

// secretStore is the store of a reflector of metadata. It remembers nothing: it
// says which of the wanted Secrets to read again.
type secretStore struct {
	ctx    context.Context
	reader *secretReader
	feed   feedName
}

// Transformer makes the reflector trim metadata as it comes in.
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

// Delete is called for a Secret that is gone. It is read again all the same: it
// may have come back already.
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

// Resync is never asked for.
func (*secretStore) Resync() error { return nil }

// observe reads a Secret again if it is wanted and its version is news.
func (k *secretReader) observe(at name, version string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if secret := k.wanted[at]; secret != nil && secret.isNewer(version) {
		k.readSoon(at)
	}
}

// compare reads those Secrets of a namespace again that are not as they are in
// the list of all.
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

// isNewer reports whether a version is another one than that which was handed on,
// and not an older one: the watch may be behind what was read.
func (s *wantedSecret) isNewer(version string) bool {
	if s.version == version {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, s.version)
	return err != nil || order > 0
}

// unwatch notes that metadata may not be watched, and that no list will come.
func (k *secretReader) unwatch(feed feedName) {
	k.mu.Lock()
	known := k.unwatched[feed.namespace]
	k.unwatched[feed.namespace] = true
	k.mu.Unlock()
	if known {
		return
	}
	k.watcher.options.Log.Info("Secrets may not be watched: those that are needed are read again and again",
		"namespace", feed.namespace, "period", k.watcher.timing.deniedRetry)
	k.watcher.listed(feed)
	// Next returns, so that its caller sees that there is nothing to wait for.
	k.watcher.queue.set(refOf(name{namespace: feed.namespace}), item{silent: true})
}

// readUnwatched reads all Secrets again that nobody tells us of.
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
