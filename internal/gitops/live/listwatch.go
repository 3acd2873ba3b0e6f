package live

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// run follows until the context is done or the feed is denied.
func (f *feed) run(ctx context.Context) {
	c := f.cache
	watcher := &listWatcher{
		feed: f, running: ctx, denials: map[string]int{}, failing: map[string]string{},
		log: c.options.Log.With("resource", f.mapping.Resource.GroupResource().String(), "namespace", f.name.namespace),
	}
	reflector := kube.Reflector{
		Name: f.mapping.Resource.Resource, Example: &record{}, Store: f, PageSize: c.pace.page, Log: c.options.Log,
		Requests: kube.ListWatcher{List: watcher.list, Watch: watcher.watch},
		// The jitter keeps kinds that lost the API server at the same time from
		// coming back at the same time.
		Backoff: backoff.Policy{First: c.pace.first, Longest: c.pace.longest, JitterUp: 0.5},
		Observe: watcher.countResponse,
	}
	reflector.Run(ctx)
}

// listWatcher makes the requests of a reflector and notes how they end. Its methods
// are called one after the other.
type listWatcher struct {
	feed    *feed
	running context.Context
	log     *slog.Logger
	// denials are those in a row, by verb.
	denials map[string]int
	// failing are the failures that were logged last, by verb.
	failing map[string]string
}

// request builds a list or watch with the label selector, so that the API
// server sends managed objects only.
func (i *listWatcher) request(options *metav1.ListOptions) (*rest.Request, error) {
	options.LabelSelector = tracking.Label
	path, err := i.feed.mapping.Path(i.feed.name.namespace, "")
	if err != nil {
		return nil, err
	}
	return i.feed.cache.requests.Get().AbsPath(path).SpecificallyVersionedParams(options, scheme.ParameterCodec, schema.GroupVersion{Version: "v1"}), nil
}

// watch opens the watch. The reflector opens the next one when it ends.
func (i *listWatcher) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	request, err := i.request(&options)
	if err != nil {
		return nil, err
	}
	return request.Watch(ctx)
}

// list reads one page.
func (i *listWatcher) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	request, err := i.request(&options)
	if err != nil {
		return nil, err
	}
	return request.Do(ctx).Get()
}

// The reflector reports here how a request ended. A failure like the one before
// it is not logged again.
func (i *listWatcher) countResponse(verb string, err error) {
	switch {
	case i.running.Err() != nil:
		return // we have stopped, nothing has failed
	case err == nil:
		if i.failing[verb] != "" {
			i.log.Info("watch recovered", "verb", verb)
		}
		delete(i.denials, verb)
		delete(i.failing, verb)
		return
	// A feed that was synced survives single denials: an authorization webhook
	// that restarts denies for a moment.
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		if i.denials[verb]++; !i.feed.isSynced() || i.denials[verb] >= i.feed.cache.pace.believed {
			i.feed.end(err)
			return
		}
	default:
		delete(i.denials, verb)
	}
	if reason := kube.FailureKind(err); reason != i.failing[verb] {
		i.failing[verb] = reason
		i.log.Warn("watch failed, cached objects stay", "verb", verb, "error", err)
	}
}

// end ends a feed that the API server denies. A kind that is gone is forgotten
// with its objects; Follow finds it again when it is back.
func (f *feed) end(err error) {
	c := f.cache
	c.mu.Lock()
	if c.feeds[f.name] != f {
		c.mu.Unlock()
		return
	}
	gone := apierrors.IsNotFound(err)
	if gone {
		delete(c.feeds, f.name)
	}
	f.denied, f.at = err, time.Now()
	c.mu.Unlock()
	f.stop()
	log := c.options.Log.With("resource", f.mapping.Resource.GroupResource().String(), "namespace", f.name.namespace)
	if !gone {
		log.Warn("watch forbidden", "error", err)
		return
	}
	log.Info("kind removed from cluster")
	c.options.Kinds.Invalidate()
	f.clear()
}
