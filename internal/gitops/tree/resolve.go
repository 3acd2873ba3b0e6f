package tree

import (
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// maxPath bounds the length of a path, and of the target of a link.
const maxPath = 4096

// resolver follows a path through a Store, links included.
type resolver struct {
	store Store
	links int // the most on one way
	// cache keeps the entries of the Store: a render resolves the folders of
	// its files again and again.
	cache map[string]storeResult
}

// storeResult is the cached entry of a path, and the target of a link.
type storeResult struct {
	entry  Entry
	target string // of a link
	err    error
}

// place is where a path leads.
type place struct {
	path  string // without links
	entry Entry
	// inside: every entry on the way is in, or above, the folder within.
	inside bool
}

// newResolver returns a resolver with an empty cache. It is valid for one
// revision.
func newResolver(store Store, links int) *resolver {
	return &resolver{store: store, links: links, cache: map[string]storeResult{}}
}

// resolve follows a path. It is inside as long as nothing beside within was
// read.
func (r *resolver) resolve(given, within string) (place, error) {
	at := place{entry: Entry{Kind: Folder}, inside: true}
	switch {
	case len(given) > maxPath:
		return at, refusal.New(given[:64]+"...", refusal.TooLarge, "it is a path of more than %d characters", maxPath)
	case strings.HasPrefix(given, "/"):
		return at, refusal.New(given, refusal.NotAllowed, "it is an absolute path: only files of the repository can be read")
	case strings.ContainsRune(given, 0):
		return at, refusal.New(strings.ReplaceAll(given, "\x00", "?"), refusal.Invalid, "it has a character that no path has")
	}
	rest := strings.Split(given, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if at.path == "" {
				return at, refusal.New(given, refusal.NotAllowed, "it leaves the repository")
			}
			at.path = parent(at.path)
			at.entry = Entry{Name: base(at.path), Kind: Folder}
			continue
		}
		next := join(at.path, name)
		at.inside = at.inside && (contains(within, next) || contains(next, within))
		stored := r.lookup(next)
		if stored.err != nil {
			return at, stored.err
		}
		if stored.entry.Kind == Link {
			if links++; links > r.links {
				return at, refusal.New(given, refusal.TooMany, "it leads through more than %d links, or links that lead to themselves", r.links)
			}
			if strings.HasPrefix(stored.target, "/") {
				return at, refusal.New(next, refusal.NotAllowed, "it is a link to the absolute path %s: only files of the repository can be read", stored.target)
			}
			rest = append(strings.Split(stored.target, "/"), rest...)
			continue
		}
		at.path, at.entry = next, stored.entry
		if stored.entry.Kind == Submodule {
			return at, &InSubmodule{Path: next, Commit: stored.entry.Hash, Rest: strings.Join(rest, "/")}
		}
		if stored.entry.Kind != Folder && len(rest) > 0 {
			return at, missing(given)
		}
	}
	return at, nil
}

// lookup returns the entry of a path in the Store. It follows no links.
func (r *resolver) lookup(name string) storeResult {
	stored, ok := r.cache[name]
	if ok {
		return stored
	}
	stored.entry, stored.err = r.store.Entry(name)
	if stored.err == nil && stored.entry.Kind == Link {
		var target []byte
		target, stored.err = r.store.Read(name, maxPath)
		stored.target = string(target)
		if stored.err == nil && (stored.target == "" || strings.ContainsRune(stored.target, 0)) {
			stored.err = refusal.New(name, refusal.Invalid, "it is a link that leads nowhere")
		}
	}
	r.cache[name] = stored
	return stored
}

// contains reports whether a path is a folder, or in it.
func contains(folder, name string) bool {
	return folder == "" || folder == name || strings.HasPrefix(name, folder+"/")
}
