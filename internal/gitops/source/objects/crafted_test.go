package objects

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// crafted writes packs that git would not write.
type crafted struct {
	body  bytes.Buffer
	count uint32
}

// add writes an object and gives its offset. For a difference, back is how far
// before it the base is.
func (c *crafted) add(t *testing.T, kind Kind, content []byte, base int64) int64 {
	t.Helper()
	offset := int64(12 + c.body.Len())
	size := len(content)
	first := byte(kind)<<4 | byte(size&15)
	size >>= 4
	for size > 0 {
		c.body.WriteByte(first | 0x80)
		first = byte(size & 0x7f)
		size >>= 7
	}
	c.body.WriteByte(first)
	if kind == plumbing.OFSDeltaObject {
		back := offset - base
		digits := []byte{byte(back & 0x7f)}
		for back >>= 7; back > 0; back >>= 7 {
			back--
			digits = append([]byte{byte(back&0x7f) | 0x80}, digits...)
		}
		c.body.Write(digits)
	}
	w := zlib.NewWriter(&c.body)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c.count++
	return offset
}

func (c *crafted) bytes() []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), c.count)
	out = append(out, c.body.Bytes()...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

// longer is the difference that makes a text of a size one byte longer.
func longer(size int, last byte) []byte {
	number := func(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }
	delta := append(number(size), number(size+1)...)
	delta = append(delta, 0x80|0x10|0x20, byte(size), byte(size>>8))
	return append(delta, 1, last)
}

func receive(t *testing.T, content []byte, limits Limits) (*Set, error) {
	t.Helper()
	set, err := Create(t.TempDir(), limits.MemoryBytes)
	if err != nil {
		t.Fatal(err)
	}
	return set.Receive(t.Context(), bytes.NewReader(content), limits)
}

// ladder has on every level two differences to an object of the level before,
// so that all levels have to be kept.
func ladder(t *testing.T, levels int) (pack []byte, last ID) {
	t.Helper()
	var c crafted
	text := bytes.Repeat([]byte("x"), 1000)
	base := c.add(t, Blob, text, 0)
	for level := range levels {
		next := c.add(t, plumbing.OFSDeltaObject, longer(len(text), byte(level)), base)
		c.add(t, plumbing.OFSDeltaObject, longer(len(text), 'z'), base)
		text = append(text, byte(level))
		base = next
	}
	return c.bytes(), plumbing.ComputeHash(Blob, text)
}

func TestDifferencesAreBounded(t *testing.T) {
	pack, last := ladder(t, 40)
	limits := DefaultLimits()
	set, err := receive(t, pack, limits)
	if err != nil {
		t.Fatal(err)
	}
	if _, content, err := set.Read(last, 2000); err != nil || len(content) != 1040 {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	limits.MemoryBytes = 10_000
	var large *TooLarge
	if _, err := receive(t, pack, limits); !errors.As(err, &large) {
		t.Errorf("forty levels in memory for ten: %v", err)
	}
}

// A small difference to a large object, or with a large result, is refused
// before it is in memory.
func TestLargeDifferences(t *testing.T) {
	var c crafted
	base := c.add(t, Blob, make([]byte, 60_000), 0)
	c.add(t, plumbing.OFSDeltaObject, longer(60_000, 'a'), base)
	limits := DefaultLimits()
	limits.MemoryBytes = 50_000
	var large *TooLarge
	if _, err := receive(t, c.bytes(), limits); !errors.As(err, &large) {
		t.Errorf("a large base: %v", err)
	}
	var d crafted
	base = d.add(t, Blob, []byte("small"), 0)
	lies := append(binary.AppendUvarint(nil, 5), binary.AppendUvarint(nil, 1<<40)...)
	d.add(t, plumbing.OFSDeltaObject, append(lies, 1, 'x'), base)
	if _, err := receive(t, d.bytes(), limits); !errors.As(err, &large) {
		t.Errorf("a large result: %v", err)
	}
}

func TestMalformedDifferences(t *testing.T) {
	for name, build := range map[string]func(c *crafted){
		"base is no object": func(c *crafted) {
			base := c.add(t, Blob, []byte("text"), 0)
			c.add(t, plumbing.OFSDeltaObject, longer(4, 'a'), base+1)
		},
		"size of the base": func(c *crafted) {
			base := c.add(t, Blob, []byte("text"), 0)
			c.add(t, plumbing.OFSDeltaObject, longer(5, 'a'), base)
		},
		"no sizes": func(c *crafted) {
			base := c.add(t, Blob, []byte("text"), 0)
			c.add(t, plumbing.OFSDeltaObject, []byte{0xff}, base)
		},
	} {
		var c crafted
		build(&c)
		if _, err := receive(t, c.bytes(), DefaultLimits()); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What an id stands for is checked when it is read: here the index has
// two objects in the place of each other.
func TestAnotherContentIsNoticed(t *testing.T) {
	var c crafted
	one, two := c.add(t, Blob, []byte("one"), 0), c.add(t, Blob, []byte("two"), 0)
	set, err := receive(t, c.bytes(), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	idOne, idTwo := plumbing.ComputeHash(Blob, []byte("one")), plumbing.ComputeHash(Blob, []byte("two"))
	if _, content, err := set.Read(idOne, 10); err != nil || string(content) != "one" {
		t.Fatalf("%q, %v", content, err)
	}
	var out bytes.Buffer
	if err := writeIndex(&out, []indexEntry{{id: idOne, offset: two}, {id: idTwo, offset: one}}, set.packs[0].index.pack()); err != nil {
		t.Fatal(err)
	}
	if set.packs[0].index, err = parseIndex(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, content, err := set.Read(idOne, 10); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%q, %v", content, err)
	}
}
