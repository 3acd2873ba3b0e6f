package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"slipway.dev/slipway/api/refusal"
)

// maxHashed is the largest file of a local folder whose hash is that of its
// content. For a larger one its size and time have to do: it is not read
// anyway.
const maxHashed = 64 << 20

// folder is a local folder. The kernel keeps every path below it.
type folder struct {
	root *os.Root
}

// NewFolder returns the files of a local folder as they are now, for renders
// before a commit. Folders called .git are left out. Folders have no hash, so
// that Reads.Same always compares every file.
func NewFolder(root string) (Store, error) {
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("the folder cannot be read: %w", err)
	}
	return &folder{root: opened}, nil
}

// Entry implements Store. Only files have a hash: that of a folder would read
// everything below it.
func (f *folder) Entry(name string) (Entry, error) {
	if hidden(name) {
		return Entry{}, missing(name)
	}
	info, err := f.root.Lstat(local(name))
	if err != nil {
		return Entry{}, lookupError(name, err)
	}
	entry := folderEntry(name, info)
	if entry.Kind == File {
		entry.Hash, err = f.hash(name, info)
	}
	return entry, err
}

// Read implements Store.
func (f *folder) Read(name string, limit int64) ([]byte, error) {
	if hidden(name) {
		return nil, missing(name)
	}
	info, err := f.root.Lstat(local(name))
	if err != nil {
		return nil, lookupError(name, err)
	}
	switch folderEntry(name, info).Kind {
	case Link:
		target, err := f.root.Readlink(local(name))
		if err == nil && int64(len(target)) > limit {
			return nil, tooLarge(name, limit)
		}
		return []byte(target), err
	case File:
	default:
		return nil, refusal.New(name, refusal.Invalid, "it is not a file")
	}
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		return nil, tooLarge(name, limit)
	}
	return content, err
}

// open opens a regular file. What was one a moment ago may be a pipe now, which
// must not be waited for.
func (f *folder) open(name string) (*os.File, error) {
	// NOFOLLOW, because links are resolved by View and not by the kernel.
	file, err := f.root.OpenFile(local(name), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, lookupError(name, err)
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, refusal.New(name, refusal.Invalid, "it is not a file any more")
	}
	return file, nil
}

// List implements Store. Files that vanish while the folder is read are left
// out.
func (f *folder) List(name string) ([]Entry, error) {
	if hidden(name) {
		return nil, missing(name)
	}
	opened, err := f.root.OpenFile(local(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, lookupError(name, err)
	}
	defer opened.Close()
	if info, err := opened.Stat(); err != nil || !info.IsDir() {
		return nil, refusal.New(name, refusal.Invalid, "it is not a folder")
	}
	found, err := opened.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(found))
	for _, child := range found {
		info, err := child.Info()
		if errors.Is(err, fs.ErrNotExist) || child.Name() == ".git" {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, folderEntry(join(name, child.Name()), info))
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// folderEntry maps the mode of a file.
func folderEntry(name string, info fs.FileInfo) Entry {
	entry := Entry{Name: base(name), Kind: Special}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		entry.Kind, entry.Size = File, info.Size()
	case mode.IsDir():
		entry.Kind = Folder
	case mode&fs.ModeSymlink != 0:
		entry.Kind = Link
	}
	return entry
}

// hash is the sha256 of a file's content.
func (f *folder) hash(name string, info fs.FileInfo) (string, error) {
	if info.Size() > maxHashed {
		return fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano()), nil
	}
	file, err := f.open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(file, maxHashed+1)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// lookupError makes one error of all that mean that there is no such path.
func lookupError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG) {
		return missing(name)
	}
	return err
}

// hidden reports whether a path is in a folder of Git's own files.
func hidden(name string) bool {
	return slices.Contains(strings.Split(name, "/"), ".git")
}

// local is a path as os.Root expects it: the root is ".".
func local(name string) string { return path.Clean("./" + name) }
