package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/gitops/source/objects"
)

// disk is one folder of a repository: a bare repository of some commits without
// their history. It is replaced by another one when it has too many packs, or
// is damaged; Stores that read it keep its files open.
type disk struct {
	folder string
	packs  atomic.Pointer[objects.Set]
	// damaged: the next fetch starts with an empty folder.
	damaged atomic.Bool

	mu       sync.Mutex
	tips     []objects.ID // commits that were fetched, the last at the end
	lastUsed map[objects.ID]time.Time
}

// tipsFile lists the commits that were fetched. A folder without it is not
// complete and is thrown away.
const tipsFile = "commits"

// newDisk returns a disk without commits; tips are added by add or loadDisk.
func newDisk(folder string, set *objects.Set) *disk {
	d := &disk{folder: folder, lastUsed: map[objects.ID]time.Time{}}
	d.packs.Store(set)
	return d
}

// objects returns the current Set. It is replaced as a whole after each fetch,
// so that readers need no lock.
func (d *disk) objects() *objects.Set { return d.packs.Load() }

// needsRefetch reports whether it is time for another folder.
func (d *disk) needsRefetch() bool { return d.damaged.Load() || d.objects().Packs() >= maxPacks }

// add takes a Set with one more pack, and the commits that it came for. The
// caller holds fetchLock; mu only protects against readers of tips. The new Set
// is stored even if the file cannot be written: its objects are on the disk,
// and this process can read them. Tags are left out: servers refuse a tag among the
// commits without parents.
func (d *disk) add(set *objects.Set, ids []objects.ID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Packs and commits are written in this order: a commit in the file has its
	// objects on the disk.
	for _, id := range ids {
		if kind, _, err := set.Stat(id); err == nil && kind == objects.Commit && !slices.Contains(d.tips, id) {
			d.tips = append(d.tips, id)
		}
	}
	// More than are sent as haves, because some may be gone after a restart.
	if extra := len(d.tips) - 4*maxHaves; extra > 0 {
		d.tips = slices.Delete(d.tips, 0, extra)
	}
	var text strings.Builder
	for _, id := range d.tips {
		text.WriteString(id.String() + "\n")
	}
	path := filepath.Join(d.folder, tipsFile)
	err := os.WriteFile(path+".new", []byte(text.String()), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	d.packs.Store(set)
	return err
}

// haves is the commits that were fetched last. They shrink the next pack: the
// server leaves out objects that these commits have.
func (d *disk) haves(limit int) []objects.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.tips[max(0, len(d.tips)-limit):])
}

// markUsed remembers that a commit is used. The map is dropped as a whole above
// 256 entries: a refetch then includes fewer commits, which costs a fetch and
// nothing else.
func (d *disk) markUsed(id objects.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lastUsed) > 256 {
		clear(d.lastUsed)
	}
	d.lastUsed[id] = time.Now()
}

// recent is the commits that were used lately. A refetch brings them along, so
// that Applications on other branches do not each cause a fetch.
func (d *disk) recent(within time.Duration) []objects.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []objects.ID
	for id, at := range d.lastUsed {
		if time.Since(at) < within {
			ids = append(ids, id)
		}
	}
	return ids
}

// remove deletes the folder. Stores that read it keep their files open.
func (d *disk) remove() error { return os.RemoveAll(d.folder) }

// loadedDisk is the folder that is used now; nil before openDisk and after
// closeIdle.
func (r *repository) loadedDisk() *disk {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.disk
}

// setDisk replaces the folder that new calls use. The caller holds fetchLock.
func (r *repository) setDisk(d *disk) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.disk = d
}

// ensureDisk is the folder that is used now, opened if it is not. The first
// caller opens the folder under fetchLock, and all others wait for it; openDisk
// checks again for those.
func (r *repository) ensureDisk(ctx context.Context) (*disk, error) {
	if d := r.loadedDisk(); d != nil {
		return d, nil
	}
	select {
	case r.fetchLock <- struct{}{}:
		defer func() { <-r.fetchLock }()
	case <-ctx.Done():
		return nil, timeoutError(ctx, r.name)
	}
	return r.openDisk()
}

// openDisk opens the newest usable folder that an earlier process left, or
// creates one, and removes all others. The caller holds fetchLock.
func (r *repository) openDisk() (*disk, error) {
	if d := r.loadedDisk(); d != nil {
		return d, nil
	}
	numbers, err := r.numbers()
	if err != nil {
		return nil, err
	}
	var found *disk
	for _, number := range slices.Backward(numbers) {
		folder := filepath.Join(r.folder, strconv.Itoa(number))
		if found == nil {
			if found = loadDisk(folder); found != nil {
				continue
			}
		}
		// Old, not complete, or damaged.
		if err := os.RemoveAll(folder); err != nil {
			return nil, err
		}
	}
	if found == nil {
		if found, err = r.createFolder(); err != nil {
			return nil, err
		}
	}
	r.setDisk(found)
	return found, nil
}

// loadDisk gives nil for a folder that is no use.
func loadDisk(folder string) *disk {
	text, err := os.ReadFile(filepath.Join(folder, tipsFile))
	if err != nil {
		return nil
	}
	// A damaged folder is no error: it is removed and fetched again.
	set, err := objects.Open(folder, objects.DefaultLimits().MemoryBytes)
	if err != nil {
		return nil
	}
	d := newDisk(folder, set)
	for line := range strings.Lines(string(text)) {
		// A commit that is not on the disk must not be sent as a have: the
		// server would leave out objects that are missing here.
		if id, ok := parseID(strings.TrimSpace(line)); ok && set.Has(id) {
			d.tips = append(d.tips, id)
		}
	}
	return d
}

// createFolder makes the next folder.
func (r *repository) createFolder() (*disk, error) {
	numbers, err := r.numbers()
	if err != nil {
		return nil, err
	}
	// Numbers only grow, so that a folder that is still read is never reused.
	next := 1
	if len(numbers) > 0 {
		next = numbers[len(numbers)-1] + 1
	}
	folder := filepath.Join(r.folder, strconv.Itoa(next))
	set, err := objects.Create(folder, objects.DefaultLimits().MemoryBytes)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return newDisk(folder, set), nil
}

// numbers is the names of the folders, sorted.
func (r *repository) numbers() ([]int, error) {
	entries, err := os.ReadDir(r.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var numbers []int
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
