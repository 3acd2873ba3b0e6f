package objects

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// temporary is how the names of files begin that are not complete.
const temporary = "tmp_"

// Receive writes a pack to the folder and gives the Set that has it. On an
// error the folder is as it was. The error is a *[TooLarge] for a pack beyond
// the limits, [ErrBase] or [ErrCorrupt] for one that is no use, or that of the
// reader.
func (s *Set) Receive(ctx context.Context, from io.Reader, limits Limits) (*Set, error) {
	file, err := os.CreateTemp(filepath.Join(s.folder, packFolder), temporary+"pack_*")
	if err != nil {
		return nil, err
	}
	r := &receiver{set: s, limits: limits, file: file, ctx: ctx}
	more, err := r.receive(from)
	if err != nil {
		return nil, errors.Join(err, file.Close(), removeAny(file.Name()))
	}
	return more, nil
}

// receiver is a pack that is being received. It is used by one goroutine. The
// Set that it extends is only read.
type receiver struct {
	set    *Set
	limits Limits
	file   *os.File
	ctx    context.Context

	objects []packEntry
	sum     ID
}

// packEntry is an object of the pack, in the order of the pack.
type packEntry struct {
	indexEntry
	kind   Kind // as stored, and after resolving what it is
	length int64
	base   int64 // offset, for a difference by offset
	baseID ID    // for one by id
}

// receive streams the pack to the file, resolves its deltas and publishes it.
// Nothing of it is visible in the Set before that.
func (r *receiver) receive(from io.Reader) (*Set, error) {
	if err := r.scan(from); err != nil {
		return nil, err
	}
	size, err := r.file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	var end ID
	if _, err := r.file.ReadAt(end[:], size-int64(idSize)); err != nil || end != r.sum {
		return nil, corrupt("there is something behind the end of the pack")
	}
	p := &pack{file: r.file, size: size - int64(idSize)}
	if err := r.resolve(p); err != nil {
		return nil, err
	}
	return r.publish(p)
}

// scan writes the pack to the file and hashes what is stored whole. Limits are
// checked on the declared sizes, and then again by the reader and the length
// that was inflated.
func (r *receiver) scan(from io.Reader) error {
	out := bufio.NewWriterSize(r.file, 256<<10)
	bounded := &boundedReader{ctx: r.ctx, from: from, left: r.limits.Bytes, limit: r.limits.Bytes}
	scanner := packfile.NewScanner(io.TeeReader(bounded, out))
	// The scanner replaces the error of its reader by one of its own.
	wrong := func(err error) error {
		if bounded.err != nil {
			return bounded.err
		}
		return corrupt("the pack: %v", err)
	}
	_, count, err := scanner.Header()
	if err != nil {
		return wrong(err)
	}
	if int64(count) > int64(r.limits.Objects) {
		return &TooLarge{What: fmt.Sprintf("the repository has %d objects", count), Limit: int64(r.limits.Objects)}
	}
	total := int64(0)
	for range count {
		h, err := scanner.NextObjectHeader()
		if err != nil {
			return wrong(err)
		}
		// The declared length is checked before any byte of the object is
		// inflated.
		if h.Length > r.limits.ObjectBytes || h.Length < 0 {
			return &TooLarge{What: fmt.Sprintf("the repository has a file of %d bytes", h.Length), Limit: r.limits.ObjectBytes}
		}
		if total += h.Length; total > r.limits.TotalBytes {
			return &TooLarge{What: "the files of the repository have too many bytes together", Limit: r.limits.TotalBytes}
		}
		if err := r.object(scanner, h); err != nil {
			return wrong(err)
		}
	}
	if r.sum, err = scanner.Checksum(); err != nil {
		return wrong(err)
	}
	// What follows is read, so that the other side can end.
	if _, err := io.Copy(out, io.LimitReader(bounded, 1)); err != nil {
		return wrong(err)
	}
	return out.Flush()
}

// object takes the next object of the scanner.
func (r *receiver) object(scanner *packfile.Scanner, h *packfile.ObjectHeader) error {
	o := packEntry{kind: h.Type, length: h.Length, base: h.OffsetReference, baseID: h.Reference}
	o.offset = h.Offset
	var written int64
	var err error
	switch h.Type {
	case Commit, Tree, Blob, Tag:
		// Whole objects are hashed while they stream. Deltas get their ids in
		// resolve, when their bases are known.
		hasher := plumbing.NewHasher(h.Type, h.Length)
		written, o.crc, err = scanner.NextObject(hasher)
		o.id = hasher.Sum()
	case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		written, o.crc, err = scanner.NextObject(io.Discard)
	default:
		return fmt.Errorf("an object is of the unknown kind %d", h.Type)
	}
	if err == nil && written != h.Length {
		err = errors.New("an object is shorter than its header")
	}
	r.objects = append(r.objects, o)
	return err
}

// publish writes the index and gives both files their names. The index comes last:
// a pack without one does not count.
func (r *receiver) publish(p *pack) (*Set, error) {
	entries := make([]indexEntry, len(r.objects))
	for i, o := range r.objects {
		entries[i] = o.indexEntry
	}
	r.objects = nil
	folder := filepath.Join(r.set.folder, packFolder)
	// The index is read back from the file, so that an Open after a restart
	// sees the same bytes.
	indexFile, err := os.CreateTemp(folder, temporary+"idx_*")
	if err != nil {
		return nil, err
	}
	err = errors.Join(writeIndex(indexFile, entries, r.sum), indexFile.Close())
	if err == nil {
		p.index, err = readIndex(indexFile.Name())
	}
	name := filepath.Join(folder, "pack-"+r.sum.String())
	if err == nil {
		err = os.Rename(r.file.Name(), name+".pack")
	}
	if err == nil {
		err = os.Rename(indexFile.Name(), name+".idx")
	}
	if err != nil {
		return nil, errors.Join(err, removeAny(indexFile.Name()), removeAny(name+".pack"))
	}
	return r.set.with(p), nil
}

// boundedReader ends with a *TooLarge after a number of bytes, and with the
// context.
type boundedReader struct {
	ctx   context.Context
	from  io.Reader
	left  int64
	limit int64
	err   error
}

// Read reads and remembers an error that is not the end. The error is kept,
// because the scanner hides it and it decides whether a retry makes sense.
func (b *boundedReader) Read(p []byte) (int, error) {
	if err := context.Cause(b.ctx); err != nil {
		b.err = err
		return 0, err
	}
	if b.left <= 0 {
		b.err = &TooLarge{What: "the repository's pack is too large", Limit: b.limit}
		return 0, b.err
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// removeAny removes a file that may not exist.
func removeAny(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
