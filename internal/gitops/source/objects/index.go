package objects

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
)

// The parts of an index of version 2, Git's own form: a head, the number of ids
// up to each first byte, the ids, the sums, the offsets, the large offsets, and
// two hashes.
const (
	indexMagic  = "\xfftOc\x00\x00\x00\x02"
	fanoutStart = len(indexMagic)
	idsStart    = fanoutStart + 256*4
	idSize      = len(ID{})
	largeMark   = 1 << 31
)

// maxIndexBytes is that of 20 million objects. A larger file is corrupt:
// Receive bounds the objects of a pack far below that.
const maxIndexBytes = 640 << 20

// indexEntry is an object of a pack.
type indexEntry struct {
	id     ID
	offset int64
	crc    uint32
}

// index finds the objects of a pack. It is the bytes of the file.
type index struct {
	data  []byte
	count int
}

// writeIndex writes an index for the objects, which it sorts. An object that is
// there twice is written once. Errors of the buffered writer are sticky, so
// that only the last Flush is checked.
func writeIndex(w io.Writer, objects []indexEntry, pack ID) error {
	slices.SortFunc(objects, func(a, b indexEntry) int { return bytes.Compare(a.id[:], b.id[:]) })
	objects = slices.CompactFunc(objects, func(a, b indexEntry) bool { return a.id == b.id })
	sum := sha1.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	_, _ = out.WriteString(indexMagic)
	number := func(n uint32) { _, _ = out.Write(binary.BigEndian.AppendUint32(nil, n)) }
	next := 0
	// The fanout table: for each first byte the number of ids up to it.
	for first := range 256 {
		for next < len(objects) && int(objects[next].id[0]) <= first {
			next++
		}
		number(uint32(next))
	}
	for _, o := range objects {
		_, _ = out.Write(o.id[:])
	}
	for _, o := range objects {
		number(o.crc)
	}
	var large []byte
	for _, o := range objects {
		// The high bit marks an index into the table of large offsets.
		if o.offset < largeMark {
			number(uint32(o.offset))
			continue
		}
		number(uint32(largeMark | len(large)/8))
		large = binary.BigEndian.AppendUint64(large, uint64(o.offset))
	}
	_, _ = out.Write(large)
	_, _ = out.Write(pack[:])
	// The writer keeps the first error.
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// readIndex reads a file and checks that it is whole. The file is read into
// memory as a whole: lookups are frequent, and a mapping would crash the
// process if the file were truncated.
func readIndex(path string) (*index, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxIndexBytes+1))
	if err != nil {
		return nil, err
	}
	return parseIndex(data)
}

// parseIndex checks the magic number, the checksum and that the fanout table is
// sorted. After that, lookups need no bounds checks but for large offsets.
func parseIndex(data []byte) (*index, error) {
	if len(data) < idsStart+2*idSize || len(data) > maxIndexBytes || string(data[:fanoutStart]) != indexMagic {
		return nil, corrupt("an index has %d bytes or another form", len(data))
	}
	body := data[:len(data)-idSize]
	// SHA-1 is Git's format here, and protects against damage, not against
	// attacks: objects are verified by their ids when they are read.
	if sum := sha1.Sum(body); !bytes.Equal(sum[:], data[len(body):]) {
		return nil, corrupt("the sum of an index is wrong")
	}
	x := &index{data: data}
	last := 0
	for first := range 256 {
		n := x.upTo(first)
		if n < last {
			return nil, corrupt("an index is not sorted")
		}
		last = n
	}
	x.count = last
	rest := len(data) - 2*idSize - idsStart - last*(idSize+8)
	if rest < 0 || rest%8 != 0 {
		return nil, corrupt("an index has %d bytes for %d objects", len(data), last)
	}
	return x, nil
}

// upTo is the number of ids whose first byte is at most this.
func (x *index) upTo(first int) int {
	return int(binary.BigEndian.Uint32(x.data[fanoutStart+4*first:]))
}

// id is the i-th id, in ascending order.
func (x *index) id(i int) []byte { return x.data[idsStart+i*idSize:][:idSize] }

// pack is the id of the pack that the index is of.
func (x *index) pack() ID { return ID(x.data[len(x.data)-2*idSize:][:idSize]) }

// find returns the offset of an object in the pack: the fanout table narrows
// the search to the ids with the same first byte.
func (x *index) find(id ID) (int64, bool) {
	from := 0
	if id[0] > 0 {
		from = x.upTo(int(id[0]) - 1)
	}
	to := x.upTo(int(id[0]))
	i := from + sort.Search(to-from, func(i int) bool { return bytes.Compare(x.id(from+i), id[:]) >= 0 })
	if i >= to || !bytes.Equal(x.id(i), id[:]) {
		return 0, false
	}
	return x.offset(i)
}

// offset is the offset of the i-th object. Offsets above 2 GiB are in a table
// of their own, whose position the 31 low bits give. It is false for an offset
// outside of the table, which only a crafted index has.
func (x *index) offset(i int) (int64, bool) {
	offsets := idsStart + x.count*(idSize+4)
	small := binary.BigEndian.Uint32(x.data[offsets+4*i:])
	if small < largeMark {
		return int64(small), true
	}
	at := offsets + 4*x.count + 8*int(small-largeMark)
	if at+8 > len(x.data)-2*idSize {
		return 0, false
	}
	large := binary.BigEndian.Uint64(x.data[at:])
	return int64(large), large < 1<<62
}

// startingWith is the ids that begin with hexadecimal digits. An odd number of
// digits is padded with 0 for the search; the comparison of the text then
// decides.
func (x *index) startingWith(digits string) []ID {
	padded := digits + "0"[:len(digits)%2]
	low, err := hex.DecodeString(padded)
	if err != nil || len(low) > idSize {
		return nil
	}
	var found []ID
	i := sort.Search(x.count, func(i int) bool { return bytes.Compare(x.id(i), low) >= 0 })
	for ; i < x.count && strings.HasPrefix(hex.EncodeToString(x.id(i)), digits); i++ {
		found = append(found, ID(x.id(i)))
	}
	return found
}
