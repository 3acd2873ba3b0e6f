package watch

import (
	"context"
	"maps"
	"strconv"
)

// versions are the versions of the resources of Gateway API that Next has returned. They
// are for the goroutine that calls Next.
type versions struct {
	// read are the newest objects, and upTo is how far everything was returned: bookmarks
	// and lists advance it without an object.
	read, upTo map[string]uint64
	changed    bool
}

// trackVersions makes a mirror record its versions.
func (w *Watcher) trackVersions(ctx context.Context, m *mirror, feed feedName) {
	name := feed.resource
	if feed.namespace != "" {
		name += "/" + feed.namespace
	}
	m.read = func(version string) { w.versions.raise(w.versions.read, name, version) }
	m.advanced = func(version string) {
		// push fails only at the end of the context.
		_ = w.queue.push(ctx, item{silent: true, delivered: func() { w.versions.raise(w.versions.upTo, name, version) }})
	}
}

// raise records a version, unless a newer one is known. One that is no number is that of
// an API server whose versions cannot be compared.
func (v *versions) raise(in map[string]uint64, name, version string) {
	if number, err := strconv.ParseUint(version, 10, 64); err == nil && number > in[name] {
		in[name] = number
		v.changed = true
	}
}

// Versions returns the newest versions of objects of Gateway API that Next has returned,
// by resource, and how far it has returned everything; nil if neither has changed since
// the last call.
func (w *Watcher) Versions() (read, upTo map[string]uint64) {
	if !w.versions.changed {
		return nil, nil
	}
	w.versions.changed = false
	return maps.Clone(w.versions.read), maps.Clone(w.versions.upTo)
}
