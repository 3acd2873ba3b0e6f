package objects

import (
	"bytes"
	"crypto/sha1"
	"testing"
)

// What is written as an index is found in it, and nothing else is.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("some ids that are long enough to be some"), int64(5))
	f.Add([]byte{}, int64(0))
	f.Add(bytes.Repeat([]byte{0xff, 0}, 100), int64(1)<<40)
	f.Fuzz(func(t *testing.T, raw []byte, offset int64) {
		if offset < 0 || offset > 1<<50 {
			t.Skip()
		}
		var entries []indexEntry
		want := map[ID]int64{}
		for i := 0; i+idSize <= len(raw); i += idSize {
			id := ID(raw[i : i+idSize])
			if _, twice := want[id]; twice {
				continue
			}
			want[id] = offset + int64(i)
			entries = append(entries, indexEntry{id: id, offset: want[id]})
		}
		var out bytes.Buffer
		if err := writeIndex(&out, entries, ID{1}); err != nil {
			t.Fatal(err)
		}
		x, err := parseIndex(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if x.count != len(want) || x.pack() != (ID{1}) {
			t.Errorf("%d entries of %s, want %d", x.count, x.pack(), len(want))
		}
		for id, place := range want {
			if got, found := x.find(id); !found || got != place {
				t.Errorf("%s is at %d, %t, want %d", id, got, found, place)
			}
			id[idSize-1] ^= 1
			if _, exists := want[id]; exists {
				continue
			}
			if _, found := x.find(id); found {
				t.Errorf("%s is found", id)
			}
		}
	})
}

// Any bytes may be where an index should be.
func FuzzParseIndex(f *testing.F) {
	var out bytes.Buffer
	if err := writeIndex(&out, []indexEntry{{id: ID{1}, offset: 12}, {id: ID{2}, offset: 1 << 40}}, ID{9}); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes()[:out.Len()-idSize])
	f.Add([]byte(indexMagic))
	f.Fuzz(func(t *testing.T, body []byte) {
		// With the right sum, or nothing else is ever looked at.
		sum := sha1.Sum(body)
		x, err := parseIndex(append(bytes.Clone(body), sum[:]...))
		if err != nil {
			return
		}
		for first := range 256 {
			_, _ = x.find(ID{byte(first)})
		}
		for i := range x.count {
			_, _ = x.find(ID(x.id(i)))
		}
		_ = x.startingWith("01")
	})
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte{0x95, 0x0a, 0x78}, int64(100))
	f.Add([]byte{0xe5, 0x80, 0x80, 0x01, 0x20}, int64(5000))
	f.Add(bytes.Repeat([]byte{0xff}, 40), int64(12))
	f.Fuzz(func(t *testing.T, data []byte, offset int64) {
		if offset < 12 {
			t.Skip()
		}
		h, used, ok := parseHeader(data, offset)
		if ok && (used > len(data) || h.length < 0 || h.base < 0 || h.base >= offset) {
			t.Errorf("%+v, %d of %d bytes", h, used, len(data))
		}
		before, after, ok := deltaSizes(data)
		if ok && (before < 0 || after < 0) {
			t.Errorf("sizes are %d and %d", before, after)
		}
	})
}
