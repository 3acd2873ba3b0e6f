package live

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// Note takes the object of a response to our own write. It is visible at once,
// and older events that come later do not replace it. An object without the
// label is removed.
func (c *Cache) Note(object *unstructured.Unstructured) {
	note := &record{app: object.GetLabels()[tracking.Label]}
	note.SetGroupVersionKind(object.GroupVersionKind())
	note.Namespace, note.Name = object.GetNamespace(), object.GetName()
	note.UID, note.ResourceVersion = object.GetUID(), object.GetResourceVersion()
	c.note(note, func() []byte {
		raw, err := object.MarshalJSON()
		if err != nil {
			return nil
		}
		return raw
	})
}

// NoteJSON is Note for a response that has not been decoded.
func (c *Cache) NoteJSON(raw []byte) {
	h, err := readHead(raw)
	if err != nil || h.isList() {
		return
	}
	note := h.record(nil)
	c.note(&note, func() []byte { return append(make([]byte, 0, len(raw)), raw...) })
}

// note takes a state of an object that did not come by a watch. The text is
// made only if it is kept. The check is made twice: without the write lock for
// the common case of an echo, and again with it, because an event may have come
// in between.
func (c *Cache) note(note *record, text func() []byte) {
	kind := note.GroupVersionKind().GroupKind()
	key := tracking.Key{Group: kind.Group, Kind: kind.Kind, Namespace: note.Namespace, Name: note.Name}
	c.mu.RLock()
	f := c.feedOf(key)
	known := f != nil && c.seen(f, key, note)
	c.mu.RUnlock()
	if known {
		return
	}
	if f == nil {
		if note.app == "" || !c.adopt(kind, note.Namespace) {
			return
		}
	}
	if note.app != "" {
		if note.raw = text(); note.raw == nil {
			return
		}
	}
	c.mu.Lock()
	f = c.feedOf(key)
	if f == nil || c.seen(f, key, note) {
		c.mu.Unlock()
		return
	}
	var before *Object
	if note.app == "" {
		before = c.drop(key)
		f.lose(key, note.ResourceVersion)
	} else {
		before = c.put(c.object(kind, note))
	}
	c.mu.Unlock()
	// The writer needs no event for its own write. Another Application that had
	// the object does.
	if before != nil && before.App != note.app {
		c.options.Changed(before.App, key)
	}
}

// seen reports whether the watch has delivered a state, or a later one: an
// object that is not there then was deleted meanwhile. The caller holds mu.
func (c *Cache) seen(f *feed, key tracking.Key, note *record) bool {
	if order, err := resourceversion.CompareResourceVersion(note.ResourceVersion, f.progress); err == nil && order <= 0 {
		return true
	}
	if newer(f.lost[key], note.ResourceVersion) {
		return true
	}
	is := c.objects[key]
	return is != nil && (newer(is.ResourceVersion, note.ResourceVersion) ||
		is.ResourceVersion == note.ResourceVersion && is.APIVersion == note.APIVersion)
}

// adopt begins to follow a kind of which something was written, and reports
// whether objects of the namespace come from it.
func (c *Cache) adopt(kind schema.GroupKind, namespace string) bool {
	c.mu.RLock()
	running := c.ctx != nil
	c.mu.RUnlock()
	if !running {
		return false
	}
	// What was written is of a known kind: the lookup needs no request.
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.start(now, kind); err != nil {
		return false
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.feedOf(tracking.Key{Group: kind.Group, Kind: kind.Kind, Namespace: namespace}) != nil
}
