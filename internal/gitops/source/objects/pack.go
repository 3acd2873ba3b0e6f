package objects

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// pack is one pack and its index. The file is closed by the runtime when
// nothing holds the pack any more.
type pack struct {
	file  *os.File
	size  int64 // without the hash at the end
	index *index
}

// openPack opens a pack and checks that it is the one of its index, and whole.
func openPack(packPath, indexPath string) (*pack, error) {
	x, err := readIndex(indexPath)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(packPath)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &pack{file: file, size: info.Size() - int64(idSize), index: x}
	var end ID
	// The trailing hash of the pack is in its index too, so that a mixed-up
	// pair is detected without reading the pack.
	if _, err := file.ReadAt(end[:], p.size); p.size < 12 || err != nil || end != x.pack() {
		return nil, errors.Join(corrupt("a pack is not the one of its index"), file.Close())
	}
	return p, nil
}

// header is the beginning of an object in a pack.
type header struct {
	kind   Kind
	length int64 // of what is compressed
	data   int64 // where that begins
	base   int64 // offset of what it is a difference to
	baseID ID    // or its id
}

// isDelta reports whether the object is stored as a delta to another.
func (h header) isDelta() bool { return h.kind.IsDelta() }

// header reads the beginning of the object at an offset. 48 bytes are enough
// for the longest header: ten bytes of kind and length, and the id of a base.
func (p *pack) header(offset int64) (header, error) {
	var buffer [48]byte
	if offset < 12 || offset >= p.size {
		return header{}, corrupt("an object begins outside of its pack")
	}
	n, err := p.file.ReadAt(buffer[:min(int64(len(buffer)), p.size-offset)], offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	h, used, ok := parseHeader(buffer[:n], offset)
	if !ok {
		return header{}, corrupt("an object has no proper beginning")
	}
	h.data = offset + int64(used)
	return h, nil
}

// parseHeader reads kind, length and base. The format is that of
// gitformat-pack. Everything in it is untrusted: a base must be before its
// delta, so that offsets cannot form a cycle.
func parseHeader(b []byte, offset int64) (h header, used int, ok bool) {
	if len(b) == 0 {
		return h, 0, false
	}
	first := b[0]
	h.kind, h.length, used = Kind(first>>4&7), int64(first&15), 1
	// Four bits of the length are in the first byte, seven in each that
	// follows.
	for shift := 4; b[used-1]&0x80 != 0; shift += 7 {
		if used >= len(b) || shift > 56 {
			return h, 0, false
		}
		h.length |= int64(b[used]&0x7f) << shift
		used++
	}
	switch h.kind {
	case Commit, Tree, Blob, Tag:
	case plumbing.OFSDeltaObject:
		back, n := parseBaseDistance(b[used:])
		used += n
		h.base = offset - back
		return h, used, n > 0 && back > 0 && h.base >= 12
	case plumbing.REFDeltaObject:
		// A delta by id is followed by the id of its base.
		if len(b) < used+idSize {
			return h, 0, false
		}
		h.baseID = ID(b[used : used+idSize])
		used += idSize
	default:
		return h, 0, false
	}
	return h, used, true
}

// parseBaseDistance reads how far before an object its base is. Each further
// byte adds one before the shift, so that a distance has one encoding only
// (gitformat-pack).
func parseBaseDistance(b []byte) (back int64, used int) {
	for used < len(b) && used < 9 {
		c := b[used]
		if used > 0 {
			back++
		}
		back = back<<7 | int64(c&0x7f)
		used++
		if c&0x80 == 0 {
			return back, used
		}
	}
	return 0, 0
}

// inflaters are readers of compressed data, which are large and used again.
type inflaters struct{ pool sync.Pool }

// inflater is a zlib reader with its buffer. Together they take some 45 KiB.
type inflater struct {
	source *bufio.Reader
	reader io.ReadCloser
}

// get returns a reader from the pool, reset to the input. The caller returns it
// with put, also after an error of the stream.
func (f *inflaters) get(from io.Reader) (*inflater, error) {
	if i, ok := f.pool.Get().(*inflater); ok {
		i.source.Reset(from)
		return i, i.reader.(zlib.Resetter).Reset(i.source, nil)
	}
	source := bufio.NewReaderSize(from, 4096)
	reader, err := zlib.NewReader(source)
	return &inflater{source: source, reader: reader}, err
}

// put returns a reader to the pool. It drops the input first, so that the pool
// holds no open files.
func (f *inflaters) put(i *inflater) {
	i.source.Reset(bytes.NewReader(nil))
	f.pool.Put(i)
}

// inflate reads compressed data: all of its length, or the first limit bytes.
func (p *pack) inflate(f *inflaters, h header, limit int64) ([]byte, error) {
	i, err := f.get(io.NewSectionReader(p.file, h.data, p.size-h.data))
	if err != nil {
		return nil, corrupt("an object is not compressed: %v", err)
	}
	defer f.put(i)
	content := make([]byte, min(h.length, limit))
	if _, err := io.ReadFull(i.reader, content); err != nil {
		return nil, corrupt("an object is cut off: %v", err)
	}
	// Only the beginning was wanted, such as the sizes of a delta.
	if h.length > limit {
		return content, nil
	}
	// One byte more shows the end, and with it the sum of the data.
	if n, err := i.reader.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return nil, corrupt("an object is longer than its header, or its checksum is wrong")
	}
	return content, nil
}

// deltaSizes reads the sizes before and after that a difference begins with.
func deltaSizes(delta []byte) (before, after int64, ok bool) {
	before, used := parseSize(delta)
	if used == 0 {
		return 0, 0, false
	}
	after, more := parseSize(delta[used:])
	return before, after, more > 0
}

// parseSize reads a size in Git's variable-length encoding: 7 bits in each
// byte, the lowest first. used is 0 if it is malformed.
func parseSize(b []byte) (size int64, used int) {
	for shift := 0; used < len(b) && shift <= 56; shift += 7 {
		c := b[used]
		size |= int64(c&0x7f) << shift
		used++
		if c&0x80 == 0 {
			return size, used
		}
	}
	return 0, 0
}
