package source

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"slipway.dev/slipway/internal/gitops/project"
)

// quota bounds the disk space of each project, and of all together. What is kept
// on the disk are entries: a repository, an archive or an index, by its path in
// the folder.
//
// An entry counts in full for every project that uses it, and is removed when
// the last of them gives it up. So a project that exceeds its quota loses its own
// least recently used entries, and what others use stays where it is.
//
// Sizes are in memory: the disk is read once at the start. The mutex is taken
// before those of Sources and repositories, never after them.
type quota struct {
	perProject, total int64
	// remove deletes an entry from the disk. It is false for one that is in use
	// after all.
	remove  func(name string) bool
	evicted func(project string, bytes int64)

	mu sync.Mutex
	// limits are those of projects that have their own.
	limits   map[string]int64
	used     int64 // by all entries, and by what is being received
	entries  map[string]*quotaEntry
	projects map[string]*projectUsage
	claims   claimsFile
}

// quotaEntry is something on the disk.
type quotaEntry struct {
	bytes    int64
	projects int // that use it
	busy     int // fetches into it that are under way
}

// projectUsage is what one project uses.
type projectUsage struct {
	bytes    int64
	received int64 // the part of bytes that is being received
	lastUsed map[string]time.Time
}

// minEntryBytes is what an entry counts at least. It stands for the blocks of a
// folder and the memory of the entry, and bounds how many a project can have.
const minEntryBytes = 64 << 10

// The options of the limits, for messages.
const (
	optionPerProject = "sources.diskPerProject of the agent or the annotation " + project.DiskAnnotation + " of the AppProject"
	optionTotal      = "sources.diskLimit of the agent"
)

// errNoRoom is the cause of the refusal of a fetch that exceeds a quota alone,
// with what there is of its repository.
var errNoRoom = errors.New("the quota is exceeded")

// project is the usage of a project. The lock is held, as in all functions that
// do not take it.
func (q *quota) project(name string) *projectUsage {
	p := q.projects[name]
	if p == nil {
		p = &projectUsage{lastUsed: map[string]time.Time{}}
		q.projects[name] = p
	}
	return p
}

// use records that a project uses an entry, which is added if it is not there.
func (q *quota) use(project, name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.claim(project, name, time.Now())
	q.makeRoom(project, name)
}

// setLimit sets the limit of a project; 0 is that of most projects.
func (q *quota) setLimit(project string, limit int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if limit == 0 {
		delete(q.limits, project)
		return
	}
	q.limits[project] = limit
}

// limitOf is the limit of a project.
func (q *quota) limitOf(project string) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return cmp.Or(q.limits[project], q.perProject)
}

// touch is use of an entry that is in memory too, and may be gone from the disk.
func (q *quota) touch(project, name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entries[name] != nil {
		q.claim(project, name, time.Now())
	}
}

// claim makes an entry count for a project. The first time is written to the
// disk.
func (q *quota) claim(project, name string, at time.Time) {
	e := q.entries[name]
	if e == nil {
		e = &quotaEntry{bytes: minEntryBytes}
		q.entries[name] = e
		q.used += e.bytes
	}
	p := q.project(project)
	if _, known := p.lastUsed[name]; !known {
		e.projects++
		p.bytes += e.bytes
		q.claims.add(project, name)
	}
	p.lastUsed[name] = at
}

// setSize sets the size of an entry.
func (q *quota) setSize(name string, bytes int64) {
	e := q.entries[name]
	if e == nil {
		return
	}
	more := max(bytes, minEntryBytes) - e.bytes
	e.bytes += more
	q.used += more
	for project, p := range q.projects {
		if _, uses := p.lastUsed[name]; uses {
			p.bytes += more
			q.makeRoom(project, name)
		}
	}
}

// exceeded names the option whose limit a project exceeds, with the limit; it is
// empty for none.
func (q *quota) exceeded(project string) (option string, limit int64) {
	limit = cmp.Or(q.limits[project], q.perProject)
	switch {
	case q.project(project).bytes > limit:
		return optionPerProject, limit
	case q.used > q.total:
		return optionTotal, q.total
	}
	return "", 0
}

// makeRoom evicts until a project is within its quota, and all together are
// within theirs. It is false if nothing more can be evicted. The entry that room
// is made for stays.
func (q *quota) makeRoom(project, name string) bool {
	for {
		switch option, _ := q.exceeded(project); option {
		case "":
			return true
		case optionPerProject:
			if !q.evictOldest(project, name) {
				return false
			}
		default:
			if !q.evictOldest(q.largest(project), name) && !q.evictOldest(project, name) {
				return false
			}
		}
	}
}

// largest is the project that uses most: with less than an equal share nothing is
// evicted for others.
func (q *quota) largest(project string) string {
	most := q.total / int64(len(q.projects))
	for name, p := range q.projects {
		if p.bytes > most {
			project, most = name, p.bytes
		}
	}
	return project
}

// evictOldest gives up the least recently used entry of a project, but not the
// one with this name, and none that is being fetched.
func (q *quota) evictOldest(project, except string) bool {
	oldest := ""
	var at time.Time
	p := q.project(project)
	for name, used := range p.lastUsed {
		if name != except && q.entries[name].busy == 0 && (oldest == "" || used.Before(at)) {
			oldest, at = name, used
		}
	}
	if oldest == "" {
		return false
	}
	q.evicted(project, q.entries[oldest].bytes)
	q.giveUp(project, oldest)
	return true
}

// giveUp makes an entry no longer count for a project, and removes it with the
// last one.
func (q *quota) giveUp(project, name string) {
	e, p := q.entries[name], q.projects[project]
	delete(p.lastUsed, name)
	p.bytes -= e.bytes
	q.forget(project)
	if e.projects--; e.projects == 0 {
		q.drop(name, e)
	}
}

// forget drops a project that uses nothing.
func (q *quota) forget(project string) {
	if p := q.project(project); len(p.lastUsed) == 0 && p.received == 0 {
		delete(q.projects, project)
	}
}

// drop removes an entry that no project uses. One that is in use after all is
// counted again by that use, or removed by the next sweep.
func (q *quota) drop(name string, e *quotaEntry) {
	if q.remove(name) {
		q.used -= e.bytes
		delete(q.entries, name)
	}
}

// sweep gives up what a project has not used since a time. The error is that of
// the record of claims.
func (q *quota) sweep(since time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for project, p := range q.projects {
		for name, used := range p.lastUsed {
			if used.Before(since) && q.entries[name].busy == 0 {
				q.giveUp(project, name)
			}
		}
	}
	for name, e := range q.entries {
		if e.projects == 0 {
			q.drop(name, e)
		}
	}
	// Evictions leave lines behind.
	if q.claims.lines > 1000+2*q.count() {
		q.claims.failed = q.claims.rewrite(q)
	}
	failed := q.claims.failed
	q.claims.failed = nil
	return failed
}

// count is how many claims there are.
func (q *quota) count() (n int) {
	for _, p := range q.projects {
		n += len(p.lastUsed)
	}
	return n
}

// usage is the bytes that each project uses.
func (q *quota) usage() map[string]int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes := map[string]int64{}
	for name, p := range q.projects {
		bytes[name] = p.bytes
	}
	return bytes
}

// close ends the record of claims.
func (q *quota) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.claims.close()
}
