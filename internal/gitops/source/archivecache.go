package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/source/helmindex"
	"slipway.dev/slipway/internal/gitops/tree"
)

// How much of unpacked archives is kept in memory.
const (
	maxUnpacked      = 64
	maxUnpackedBytes = 24 << 20
)

// archive is an archive or a file of Git LFS on the disk: its sha256, and the folder name of the
// cacheKey that it was fetched for. An index of one tenant that names the digest
// of another tenant's chart does not get it from the cache.
type archive struct{ owner, digest string }

// name is that of the file. The digest is validated by isDigest before, so that
// it cannot leave the folder.
func (a archive) name() string { return a.digest + "-" + a.owner + ".tgz" }

// archiveCache keeps archives and compact indexes on the disk, and the last used
// archives unpacked in memory. The quota of projects decides what stays on the
// disk. It is safe for concurrent use. Files on the disk need no lock: they get
// their names by rename, and content under one digest is always the same.
type archiveCache struct {
	folder string
	quota  *quota

	unpacked *cache.LRU[unpackedKey, tree.Store]
}

// newArchiveCache creates the folder.
func newArchiveCache(folder string, quota *quota) (*archiveCache, error) {
	c := &archiveCache{
		folder: filepath.Join(folder, chartFolder), quota: quota,
		unpacked: cache.NewLRU[unpackedKey, tree.Store](cache.Limits{Bytes: maxUnpackedBytes, ValueBytes: maxUnpackedBytes / 2, Entries: maxUnpacked}),
	}
	return c, os.MkdirAll(c.folder, 0o700)
}

// unpackedKey is an archive with or without its first folder, or a file of Git
// LFS, which is not unpacked.
type unpackedKey struct {
	archive
	stripped, object bool
}

// path is where an archive is.
func (c *archiveCache) path(of archive) string { return filepath.Join(c.folder, of.name()) }

// has reports whether an archive is there, and marks it as used by a project.
func (c *archiveCache) has(project string, wanted archive) bool {
	if !isDigest(wanted.digest) || touch(c.path(wanted)) != nil {
		return false
	}
	c.quota.use(project, entryOf(wanted.name()))
	return true
}

// entryOf is the name of a file in the quota.
func entryOf(file string) string { return chartFolder + "/" + file }

// touch marks a file as used, for the time after a restart.
func touch(path string) error {
	now := time.Now()
	return os.Chtimes(path, now, now)
}

// isDigest reports whether a text is a hexadecimal sha256. Digests come from
// indexes and manifests, which are untrusted.
func isDigest(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// put writes an archive for a project and gives it with its digest. One of
// another digest than the wanted is refused; an empty one takes any.
func (c *archiveCache) put(project string, from io.Reader, wanted archive, limit int64) (archive, error) {
	// The archive gets its name by a rename when it is complete, so that a
	// process that is killed leaves no truncated one behind.
	file, err := os.CreateTemp(c.folder, "tmp_*")
	if err != nil {
		return archive{}, err
	}
	reception := c.quota.begin(project, "")
	wanted.digest, err = receiveArchive(file, reception.reader(from), wanted.digest, limit)
	if err := c.place(reception, file, wanted.name(), err); err != nil {
		return archive{}, err
	}
	return wanted, nil
}

// place closes a temporary file and gives it its name, or removes it if err is
// the error of what wrote it. It ends the reception.
func (c *archiveCache) place(reception *reception, file *os.File, name string, err error) error {
	var size int64
	if info, problem := file.Stat(); problem == nil {
		size = info.Size()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(c.folder, name))
	}
	if err != nil {
		reception.end("", 0)
		return errors.Join(err, os.Remove(file.Name()))
	}
	reception.end(entryOf(name), size)
	return nil
}

// indexName is the name of the compact index of a repository.
func indexName(owner string) string { return owner + ".index" }

// versions reads the versions of a chart in a compact index, for a project. An
// index that is not there, or cannot be read, is errDamaged.
func (c *archiveCache) versions(project, owner, chart string) ([]helmindex.Entry, error) {
	path := filepath.Join(c.folder, indexName(owner))
	_ = touch(path) // the next line has the error
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errDamaged
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	c.quota.use(project, entryOf(indexName(owner)))
	found, err := helmindex.Find(file, chart)
	if refused, ok := errors.AsType[*refusal.Refusal](err); ok {
		return nil, &Error{Kind: Refused, Message: refused.Message, Err: err}
	}
	if err != nil {
		return nil, errors.Join(errDamaged, err)
	}
	return found, nil
}

// receiveArchive writes at most limit bytes to the file and returns their
// digest. It is computed while the archive streams, so that nothing unverified
// gets its final name.
func receiveArchive(file *os.File, from io.Reader, wanted string, limit int64) (string, error) {
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(from, limit+1))
	if err != nil {
		return "", err
	}
	// One byte more than the limit was allowed above, to see the difference.
	if size > limit {
		return "", errorf(Refused, "", "the content has more than %d bytes: raise the limit, or make it smaller", limit)
	}
	digest := hex.EncodeToString(sum.Sum(nil))
	if wanted != "" && digest != wanted {
		return "", errorf(Refused, "", "the content has the digest %s and should have %s: it was changed, or what names it is old", digest, wanted)
	}
	return digest, nil
}

// errDamaged reports that an archive on the disk was not what its name says, or
// vanished. It is removed, and can be fetched again.
var errDamaged = &Error{Kind: Unreachable, Message: "the archive on the disk is damaged and is fetched again"}

// store unpacks an archive, or gives what was unpacked before. The content is
// checked against its digest, because the disk may have changed: only an
// archive that is what was fetched can be refused.
func (c *archiveCache) store(of archive, limits tree.ArchiveLimits) (tree.Store, error) {
	key := unpackedKey{archive: of, stripped: limits.StripFirst}
	if store, found := c.unpacked.Get(key); found {
		return store, nil
	}
	file, err := os.Open(c.path(of))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errDamaged
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	checked := io.TeeReader(file, sum)
	store, refused := tree.FromArchive(checked, limits)
	// The tar reader stops at the end of the archive or at an error; the digest
	// covers the rest of the file too.
	if _, err := io.Copy(io.Discard, checked); err != nil {
		return nil, err
	}
	if hex.EncodeToString(sum.Sum(nil)) != of.digest {
		return nil, errors.Join(errDamaged, os.Remove(file.Name()))
	}
	if refused != nil {
		return nil, &Error{Kind: Refused, Message: fmt.Sprintf("the archive is refused: %v", refused), Err: refused}
	}
	// Four times its packed size is a guess: the store does not measure itself.
	c.unpacked.Add(key, store, 4*info.Size())
	return store, nil
}

// object is a file of Git LFS, which is checked against its digest like an
// archive.
func (c *archiveCache) object(of archive) (tree.Store, error) {
	key := unpackedKey{archive: of, object: true}
	if store, found := c.unpacked.Get(key); found {
		return store, nil
	}
	content, err := os.ReadFile(c.path(of))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errDamaged
	}
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != of.digest {
		return nil, errors.Join(errDamaged, os.Remove(c.path(of)))
	}
	store := tree.NewMemory(map[string]string{job.FileName: string(content)})
	c.unpacked.Add(key, store, int64(len(content)))
	return store, nil
}
