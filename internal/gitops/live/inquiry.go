package live

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// listTimeout is more than an API server takes for a page.
const listTimeout = 2 * time.Minute

// run follows until the context is done or the feed is denied.
func (f *feed) run(ctx context.Context) {
	c := f.cache
	asked := &inquiry{
		feed: f, running: ctx, denials: map[string]int{}, failing: map[string]string{},
		log: c.options.Log.With("resource", f.mapping.Resource.GroupResource().String(), "namespace", f.name.namespace),
	}
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  asked.list,
		WatchFuncWithContext: asked.watch,
	}, &record{}, f, cache.ReflectorOptions{
		Name: f.mapping.Resource.Resource,
		// The jitter keeps kinds that lost the API server at the same time from
		// coming back at the same time.
		Backoff: &wait.Backoff{Duration: c.pace.first, Factor: 2, Jitter: 0.5, Steps: 20, Cap: c.pace.longest},
	})
	reflector.WatchListPageSize = c.pace.page
	reflector.RunWithContext(klog.NewContext(ctx, kube.QuietLogger(c.options.Log)))
}

// inquiry makes the requests of a reflector and notes how they end. Its methods
// are called one after the other.
//
// A reflector first asks for a stream that begins with all objects, and asks for
// a list when that fails, because an old API server may not know such streams.
// Where the answer would be the same, the list is not asked for: held has the
// answer for it.
type inquiry struct {
	feed    *feed
	running context.Context
	log     *slog.Logger
	held    error
	// denials are those in a row, by verb.
	denials map[string]int
	// failing are the failures that were logged last, by verb.
	failing map[string]string
}

const (
	verbList  = "list"
	verbWatch = "watch"
)

func (i *inquiry) request(options *metav1.ListOptions) (*rest.Request, error) {
	options.LabelSelector = tracking.Label
	path, err := i.feed.mapping.Path(i.feed.name.namespace, "")
	if err != nil {
		return nil, err
	}
	return i.feed.cache.requests.Get().AbsPath(path).SpecificallyVersionedParams(options, scheme.ParameterCodec, schema.GroupVersion{Version: "v1"}), nil
}

func (i *inquiry) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	request, err := i.request(&options)
	if err != nil {
		return nil, err
	}
	beginning := options.SendInitialEvents != nil && *options.SendInitialEvents
	events, err := request.Watch(ctx)
	switch {
	case beginning && err == nil:
		i.answered(verbList, nil)
		i.answered(verbWatch, nil)
	case !beginning:
		i.answered(verbWatch, err)
	case isFinal(err):
		i.held = err
		// The text only: for some errors the reflector would wait here, where
		// the end of the context does not wake it.
		return nil, errors.New(err.Error())
	}
	return events, err
}

func (i *inquiry) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := i.held; err != nil {
		i.held = nil
		i.answered(verbList, err)
		return nil, err
	}
	request, err := i.request(&options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list, err := request.Do(ctx).Get()
	i.answered(verbList, err)
	return list, err
}

// isFinal reports whether a list would fail as the stream did.
func isFinal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsTooManyRequests(err) || utilnet.IsConnectionRefused(err)
}

// answered notes how a request ended. A failure that is like the one before it
// is not logged again.
func (i *inquiry) answered(verb string, err error) {
	switch {
	case i.running.Err() != nil:
		return // we have stopped, nothing has failed
	case err == nil:
		if i.failing[verb] != "" {
			i.log.Info("following again", "verb", verb)
		}
		delete(i.denials, verb)
		delete(i.failing, verb)
		return
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		if i.denials[verb]++; !i.feed.isSynced() || i.denials[verb] >= i.feed.cache.pace.believed {
			i.feed.end(err)
			return
		}
	default:
		delete(i.denials, verb)
	}
	if reason := reasonOf(err); reason != i.failing[verb] {
		i.failing[verb] = reason
		i.log.Warn("cannot follow; what is known stays", "verb", verb, "error", err)
	}
}

// reasonOf is the same for errors that mean the same: the text of a network
// error has a port in it that is another one each time.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != "" {
		return string(reason)
	}
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+1:]
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
		log.Warn("may not follow", "error", err)
		return
	}
	log.Info("the cluster has lost a kind")
	c.options.Kinds.Invalidate()
	f.clear()
}
