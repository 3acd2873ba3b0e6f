package live

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
)

// Options are the settings of a Cache.
type Options struct {
	Cluster *kube.Cluster
	Kinds   *Kinds
	// Namespaces are those that are followed; empty is all of them.
	Namespaces []string
	// Changed is called after each event that changed an object, with its
	// label, and with the label that it had if that is another. It is not
	// called for the echo of a write that was noted. It must not block: it
	// delays the events of its kind.
	Changed func(label string, key tracking.Key)
	// Log gets failures, each once; nil is none.
	Log *slog.Logger
}

// Cache has the labelled objects of the kinds that are watched. It is safe for
// concurrent use: one lock guards all maps, and no request is sent and no
// callback called while it is held.
type Cache struct {
	options  Options
	requests rest.Interface
	broken   error
	pace     pace

	// running is closed when Run has begun.
	running chan struct{}
	feeding sync.WaitGroup

	mu sync.RWMutex
	// ctx is that of Run, nil before and after.
	ctx     context.Context
	began   bool
	objects map[tracking.Key]*holder
	// apps are the objects by their label.
	apps map[string][]*holder
	// others are objects in another version than the one that is followed. They
	// count as long as their resourceVersion is that of the object.
	others map[tracking.Key]*Object
	feeds  map[feedName]*feed
	gone   tombstones
	// names are shared by objects: namespaces, versions and labels repeat in thousands.
	names cache.Texts
}

// holder has the current state of an object. It is shared by the index by key
// and the index by label, so that an event replaces the state in one place.
type holder struct{ *Object }

// pace are the time and size limits of watches. Tests change them.
type pace struct {
	// first and longest bound the backoff while the API server does not
	// respond.
	first, longest time.Duration
	// denied is how long a refusal is believed.
	denied time.Duration
	// believed is how often in a row what was there must be denied.
	believed int
	// page is the size of the pages of a list.
	page int64
}

// defaultPace has the settings of production: a short first backoff, because
// most interruptions are restarts of one API server of several.
func defaultPace() pace {
	return pace{first: 200 * time.Millisecond, longest: 4 * time.Second, denied: 10 * time.Second, believed: 3, page: 500}
}

// New makes a Cache. It sends nothing before Run.
func New(options Options) *Cache {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Changed == nil {
		options.Changed = func(string, tracking.Key) {}
	}
	options.Namespaces = slices.Compact(slices.Sorted(slices.Values(options.Namespaces)))
	c := &Cache{
		options: options, pace: defaultPace(),
		running: make(chan struct{}),
		objects: map[tracking.Key]*holder{},
		apps:    map[string][]*holder{},
		others:  map[tracking.Key]*Object{},
		feeds:   map[feedName]*feed{},
	}
	c.requests, c.broken = Requests(options.Cluster)
	return c
}

// errEnded is returned to callers that wait when the Cache ends.
var errEnded = errors.New("the agent is stopping")

// Run watches until the context is done, and returns when all watches have
// stopped. A Cache runs once.
func (c *Cache) Run(ctx context.Context) error {
	if c.broken != nil {
		return c.broken
	}
	c.mu.Lock()
	if c.began {
		c.mu.Unlock()
		return errors.New("a cache runs once: make a new one")
	}
	c.began, c.ctx = true, ctx
	c.mu.Unlock()
	close(c.running)
	<-ctx.Done()
	c.mu.Lock()
	c.ctx = nil
	c.mu.Unlock()
	c.feeding.Wait()
	return nil
}

// Of are the objects with the label of an Application, in no order.
func (c *Cache) Of(app tracking.App) []*Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	holders := c.apps[app.Label()]
	objects := make([]*Object, len(holders))
	for i, holder := range holders {
		objects[i] = holder.Object
	}
	return objects
}

// Get is a cached object, or nil.
func (c *Cache) Get(key tracking.Key) *Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if holder := c.objects[key]; holder != nil {
		return holder.Object
	}
	return nil
}

// HasNone reports whether the watches show that no object under a key has our
// label. One without it may exist.
func (c *Cache) HasNone(key tracking.Key) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f := c.feedOf(key)
	return f != nil && f.denied == nil && f.isSynced() && c.objects[key] == nil
}

// Last returns the last state of an object that was deleted, or that lost its
// label. It is kept for some minutes, within a bound on the number; otherwise
// it is nil. A hook whose Job deletes itself is still found to have finished by
// it.
func (c *Cache) Last(key tracking.Key) *Object {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.gone.find(key, time.Now())
}

// Count is how many objects are cached, and how many bytes their texts take.
func (c *Cache) Count() (objects int, bytes int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, holder := range c.objects {
		bytes += int64(cap(holder.packed))
	}
	return len(c.objects), bytes
}

// put takes a state of an object and returns the one before, or nil. A state in
// another API version with the same resourceVersion is kept beside it. The
// caller holds mu.
func (c *Cache) put(object *Object) *Object {
	c.gone.forget(object.Key)
	is := c.objects[object.Key]
	if is == nil {
		is = &holder{object}
		c.objects[object.Key] = is
		c.apps[object.App] = append(c.apps[object.App], is)
		return nil
	}
	before := is.Object
	is.Object = object
	switch {
	case before.App != object.App:
		c.unlist(before.App, is)
		c.apps[object.App] = append(c.apps[object.App], is)
	case before.APIVersion != object.APIVersion && before.ResourceVersion == object.ResourceVersion:
		c.others[object.Key] = before
		return before
	}
	delete(c.others, object.Key)
	return before
}

// drop removes an object from all indexes and returns its last state, or nil.
// The caller holds mu.
func (c *Cache) drop(key tracking.Key) *Object {
	is := c.objects[key]
	if is == nil {
		return nil
	}
	delete(c.objects, key)
	delete(c.others, key)
	c.unlist(is.App, is)
	return is.Object
}

// unlist removes an object from those of its label, in constant time but for
// the search. The caller holds mu.
func (c *Cache) unlist(app string, is *holder) {
	list := c.apps[app]
	at := slices.Index(list, is)
	if at < 0 {
		return
	}
	last := len(list) - 1
	list[at], list[last] = list[last], nil
	if last == 0 {
		delete(c.apps, app)
		return
	}
	c.apps[app] = list[:last]
}

// notify calls Changed for the state before and after. Either may be nil.
func (c *Cache) notify(before, now *Object) {
	switch {
	case before == nil && now == nil:
		return
	case before == nil || now == nil || before.App == now.App:
	default:
		c.options.Changed(before.App, before.Key)
	}
	if now == nil {
		now = before
	}
	c.options.Changed(now.App, now.Key)
}

// scopes are the namespaces to list for a kind; an empty name lists all at
// once.
func (c *Cache) scopes(namespaced bool) []string {
	if !namespaced || len(c.options.Namespaces) == 0 {
		return []string{""}
	}
	return c.options.Namespaces
}

// feedOf is the feed that has the objects of a key, or nil. The caller holds mu.
func (c *Cache) feedOf(key tracking.Key) *feed {
	if f := c.feeds[feedName{key.GroupKind(), ""}]; f != nil {
		return f
	}
	return c.feeds[feedName{key.GroupKind(), key.Namespace}]
}

// object makes what is kept of a record. The strings that many objects share are
// kept once.
func (c *Cache) object(kind schema.GroupKind, r *record) *Object {
	return &Object{
		Key: tracking.Key{
			Group: kind.Group, Kind: kind.Kind,
			Namespace: c.names.One(r.Namespace), Name: r.Name,
		},
		UID: r.UID, ResourceVersion: r.ResourceVersion,
		APIVersion: c.names.One(r.APIVersion), App: c.names.One(r.app), packed: pack(r.raw),
	}
}
