package h2

import (
	"bytes"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// scan finds the frames in data, which comes in pieces of a size.
func scan(data []byte, size int) (found []frame, end scanner) {
	var s scanner
	var f frame
	for part := range slices.Chunk(data, size) {
		for len(part) > 0 {
			used, ok := s.next(part, &f)
			part = part[used:]
			if ok {
				found = append(found, f)
			}
		}
	}
	return found, s
}

// The frames of a scanner are those that the library reads.
func TestScanner(t *testing.T) {
	var wire bytes.Buffer
	f := http2.NewFramer(&wire, nil)
	_ = f.WriteSettings(http2.Setting{ID: 1, Val: 2})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("abc"), EndHeaders: true})
	_ = f.WriteData(1, false, nil)
	_ = f.WriteDataPadded(1, false, []byte("hello"), make([]byte, 7))
	_ = f.WriteDataPadded(1, true, nil, make([]byte, 7))
	_ = f.WriteRSTStream(1, http2.ErrCodeCancel)
	want := []frame{
		{length: 6, kind: frameSettings},
		{length: 3, kind: frameHeaders, flags: flagEndHeaders, stream: 1},
		{kind: frameData, stream: 1},
		{length: 13, kind: frameData, flags: flagPadded, stream: 1, lead: [4]byte{7}},
		{length: 8, kind: frameData, flags: flagPadded | flagEndStream, stream: 1, lead: [4]byte{7}},
		{length: 4, kind: frameReset, stream: 1, lead: [4]byte{0, 0, 0, 8}},
	}
	for size := 1; size <= wire.Len(); size++ {
		got, end := scan(wire.Bytes(), size)
		if !slices.Equal(got, want) || !end.atBoundary() {
			t.Errorf("in pieces of %d: %+v", size, got)
		}
	}
	if want[3].data() != 5 || want[4].data() != 0 {
		t.Error("padding counts as data")
	}
}

// FuzzScanner checks that nothing depends on how bytes are cut, and that the
// library sees the same frames.
func FuzzScanner(f *testing.F) {
	f.Add([]byte("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02"), 3)
	f.Add([]byte("\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08\x00\x00\x02\x00\x09\x00\x00\x00\x01\x01x"), 1)
	f.Add([]byte("\x00\x00\x00\x00\x08\x00\x00\x00\x01"), 9)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = max(1, min(size, 64))
		whole, _ := scan(data, max(1, len(data)))
		pieces, end := scan(data, size)
		if !slices.Equal(whole, pieces) {
			t.Fatalf("whole: %+v\nin pieces of %d: %+v", whole, size, pieces)
		}
		at := 0
		for rest := data; len(rest) >= frameHeaderSize; at++ {
			h, err := http2.ReadFrameHeader(bytes.NewReader(rest))
			if err != nil {
				t.Fatal(err)
			}
			if at == len(pieces) {
				if end.have < frameHeaderSize {
					t.Fatalf("frame %d is missing", at)
				}
				break // its lead is not complete
			}
			got := pieces[at]
			if got.length != h.Length || got.kind != uint8(h.Type) || got.flags != uint8(h.Flags) || got.stream != h.StreamID {
				t.Fatalf("frame %d is %+v, not %v", at, got, h)
			}
			rest = rest[min(len(rest), frameHeaderSize+int(h.Length)):]
		}
		ledger := newLedger(&Config{MaxStreams: 1, Guard: DefaultConfig().Guard})
		for i := range pieces {
			ledger.fromClient(&pieces[i])
			ledger.fromServer(&pieces[i])
		}
		if len(ledger.open) > len(pieces) {
			t.Fatalf("%d streams from %d frames", len(ledger.open), len(pieces))
		}
	})
}

// Frames that are used up come back with time.
func TestControlRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		l := newLedger(&cfg)
		ping := frame{kind: framePing, length: 8}
		send := func(n int) (reason string) {
			for range n {
				if reason = l.fromClient(&ping); reason != "" {
					return reason
				}
			}
			return ""
		}
		if reason := send(1000); reason != "" {
			t.Fatalf("a thousand: %s", reason)
		}
		for range 100 {
			<-time.After(time.Second)
			if reason := send(20); reason != "" {
				t.Fatalf("twenty a second: %s", reason)
			}
		}
		if reason := send(2); reason != ReasonPings {
			t.Errorf("one more: %q", reason)
		}
	})
}

// Of a setting that is said twice, the last one counts.
func TestKeepLast(t *testing.T) {
	setting := func(id, value byte) []byte { return []byte{0, id, 0, 0, 0, value} }
	content := bytes.Join([][]byte{setting(4, 100), setting(3, 1), setting(4, 50), setting(3, 2), setting(4, 7), {0xf0, 0xf0, 0, 0, 0, 0}}, nil)
	keepLast(content)
	f := http2.NewFramer(nil, io.MultiReader(bytes.NewReader([]byte{0, 0, byte(len(content)), frameSettings, 0, 0, 0, 0, 0}), bytes.NewReader(content)))
	read, err := f.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	settings := read.(*http2.SettingsFrame)
	if settings.HasDuplicates() || settings.NumSettings() != 6 {
		t.Errorf("left %x", content)
	}
	for id, want := range map[http2.SettingID]uint32{3: 2, 4: 7} {
		if got, _ := settings.Value(id); got != want {
			t.Errorf("setting %d is %d", id, got)
		}
	}
}
