package live

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// feedName is a kind in a namespace or, when that is empty, in all.
type feedName struct {
	kind      schema.GroupKind
	namespace string
}

// feed takes the objects of one kind from a reflector. It is the reflector's
// store: the Cache keeps the objects. Its states:
//
//	listing  the first list has not come
//	synced   events come, or the API server is away and what is known stays
//	denied   the API server refuses; it has ended, and Follow may begin another
//	missing  the kind is gone; it has ended, and its objects are gone
type feed struct {
	cache   *Cache
	name    feedName
	mapping Mapping

	// synced is closed when the first list is in, ended when the feed has ended.
	synced, ended chan struct{}
	stop          context.CancelFunc

	// Those below are guarded by the cache's mu.

	// progress is the newest resourceVersion of which all is known that was
	// before it.
	progress string
	// lost are objects that were noted without the label, with their versions:
	// events that are older would bring them back.
	lost map[tracking.Key]string
	// denied is why the feed has ended, and since when.
	denied error
	at     time.Time
}

// isSynced reports whether the first list is in.
func (f *feed) isSynced() bool {
	select {
	case <-f.synced:
		return true
	default:
		return false
	}
}

// newer reports whether a resourceVersion is newer than another. Versions that
// are not numbers are never newer, so that the last event counts.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}

// Add takes a new object.
func (f *feed) Add(object any) error { return f.Update(object) }

// Update takes an object, unless what is known is newer.
func (f *feed) Update(object any) error {
	r, ok := object.(*record)
	if !ok {
		return nil
	}
	c := f.cache
	now := c.object(f.name.kind, r)
	c.mu.Lock()
	f.advance(now.ResourceVersion)
	before, changed := f.accept(now)
	c.mu.Unlock()
	if changed {
		f.learn(now)
		c.notify(before, now)
	}
	return nil
}

// accept takes a state of an object unless the cache has a newer one: the
// response to our own write is usually there before its event. The caller holds
// mu.
func (f *feed) accept(now *Object) (before *Object, changed bool) {
	c := f.cache
	if newer(f.lost[now.Key], now.ResourceVersion) {
		return nil, false
	}
	if is := c.objects[now.Key]; is != nil {
		if newer(is.ResourceVersion, now.ResourceVersion) {
			return is.Object, false
		}
		if is.ResourceVersion == now.ResourceVersion && is.UID == now.UID {
			if is.APIVersion != now.APIVersion {
				c.put(now)
			}
			return is.Object, false
		}
	}
	return c.put(now), true
}

// Delete takes the end of an object, or the loss of its label, which the API
// server reports in the same way to a watch with a selector.
func (f *feed) Delete(object any) error {
	r, ok := object.(*record)
	if !ok {
		return nil
	}
	c := f.cache
	last := c.object(f.name.kind, r)
	c.mu.Lock()
	f.advance(last.ResourceVersion)
	is := c.objects[last.Key]
	if is != nil && newer(is.ResourceVersion, last.ResourceVersion) {
		c.mu.Unlock()
		return nil
	}
	before := c.drop(last.Key)
	if before != nil {
		c.gone.add(last, time.Now())
	}
	c.mu.Unlock()
	if before != nil {
		f.unlearn()
		c.notify(before, nil)
	}
	return nil
}

// Replace takes all objects: at first, and when events were missed.
func (f *feed) Replace(objects []any, version string) error {
	c := f.cache
	fresh := make(map[tracking.Key]*Object, len(objects))
	for _, object := range objects {
		if r, ok := object.(*record); ok {
			now := c.object(f.name.kind, r)
			fresh[now.Key] = now
		}
	}
	type change struct{ before, now *Object }
	var changes []change
	c.mu.Lock()
	// An API server whose history ends before what we have seen was restored
	// from a backup. Then its word counts, not ours.
	restored := newer(f.progress, version)
	if restored {
		f.lost = nil
	}
	for _, now := range fresh {
		if restored {
			c.drop(now.Key)
		}
		if before, changed := f.accept(now); changed {
			changes = append(changes, change{before, now})
		}
	}
	for key, is := range c.objects {
		if fresh[key] != nil || !f.has(key) || !restored && newer(is.ResourceVersion, version) {
			continue
		}
		c.gone.add(is.Object, time.Now())
		changes = append(changes, change{c.drop(key), nil})
	}
	f.progress = version
	first := !f.isSynced()
	c.mu.Unlock()
	for _, change := range changes {
		if change.now != nil {
			f.learn(change.now)
		}
		c.notify(change.before, change.now)
	}
	if first {
		close(f.synced)
	}
	return nil
}

// Bookmark notes how far the API server's history is known.
func (f *feed) Bookmark(version string) error {
	f.cache.mu.Lock()
	defer f.cache.mu.Unlock()
	f.advance(version)
	return nil
}

// Resync is not used.
func (f *feed) Resync() error { return nil }

// advance notes that all is known up to a version. While the first list comes
// that is not so: its objects are in no order. The caller holds mu.
func (f *feed) advance(version string) {
	if f.progress != "" && newer(version, f.progress) {
		f.progress = version
	}
}

// lose notes that an object has lost the label. The caller holds mu.
func (f *feed) lose(key tracking.Key, version string) {
	if f.lost == nil {
		f.lost = map[tracking.Key]string{}
	}
	// What the watch has passed cannot come back.
	for other, at := range f.lost {
		if newer(f.progress, at) {
			delete(f.lost, other)
		}
	}
	f.lost[key] = version
}

// has reports whether objects with a key come from the feed.
func (f *feed) has(key tracking.Key) bool {
	return key.GroupKind() == f.name.kind && (f.name.namespace == "" || key.Namespace == f.name.namespace)
}

// learn takes kinds from definitions that pass by.
func (f *feed) learn(object *Object) {
	if isDefinition(f.name.kind) {
		f.cache.options.Kinds.Learn(object.Unstructured())
	}
}

// unlearn makes the next lookup read discovery again after a definition was
// deleted: its kind is about to go.
func (f *feed) unlearn() {
	if isDefinition(f.name.kind) {
		f.cache.options.Kinds.Invalidate()
	}
}

// clear removes all objects of the feed and notifies their Applications.
func (f *feed) clear() {
	c := f.cache
	var lost []*Object
	c.mu.Lock()
	for key := range c.objects {
		if f.has(key) {
			lost = append(lost, c.drop(key))
		}
	}
	c.mu.Unlock()
	for _, object := range lost {
		c.notify(object, nil)
	}
}
