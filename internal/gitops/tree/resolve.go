package tree

import (
	"strings"
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
		return at, refusef(given[:64]+"...", "is a path of more than %d characters", maxPath)
	case strings.HasPrefix(given, "/"):
		return at, refusef(given, "is an absolute path: only files of the repository can be read")
	case strings.ContainsRune(given, 0):
		return at, refusef(strings.ReplaceAll(given, "\x00", "?"), "has a character that no path has")
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
				return at, refusef(given, "leaves the repository")
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
				return at, refusef(given, "leads through more than %d links, or links that lead to themselves", r.links)
			}
			if strings.HasPrefix(stored.target, "/") {
				return at, refusef(next, "is a link to the absolute path %s: only files of the repository can be read", stored.target)
			}
			rest = append(strings.Split(stored.target, "/"), rest...)
			continue
		}
		at.path, at.entry = next, stored.entry
		if stored.entry.Kind != Folder && len(rest) > 0 {
			return at, notFolder(given, at)
		}
	}
	return at, nil
}

// notFolder is the error for a path that goes on behind something that is not
// a folder.
func notFolder(given string, at place) error {
	if at.entry.Kind == Submodule {
		return submoduleRefusal(at.path)
	}
	return missing(given)
}

// submoduleRefusal is the refusal of a submodule. Its files are in another
// repository; a render without them would be incomplete, and prune.
func submoduleRefusal(name string) *Refusal {
	return refusef(name, "is a submodule, which is not fetched: put its files into the repository, or make it a source of its own")
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
			stored.err = refusef(name, "is a link that leads nowhere")
		}
	}
	r.cache[name] = stored
	return stored
}

// contains reports whether a path is a folder, or in it.
func contains(folder, name string) bool {
	return folder == "" || folder == name || strings.HasPrefix(name, folder+"/")
}
