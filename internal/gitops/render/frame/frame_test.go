package frame_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/must"
)

// What is sent arrives, small and large.
func TestRoundTrip(t *testing.T) {
	var pipe bytes.Buffer
	writer := frame.NewWriter(&pipe)
	sent := []string{"", "a", strings.Repeat("b", 64<<10), strings.Repeat("c", 1<<20)}
	for _, text := range sent {
		must.Do(t, writer.Send(frame.Content, []byte(text)))
	}
	must.Do(t, errors.Join(writer.SendJSON(frame.Stat, frame.FileRequest{Source: 1, Path: "p"}), writer.Flush()))
	reader := frame.NewReader(&pipe, 1<<20)
	for _, want := range sent {
		kind, got, err := reader.Next()
		if err != nil || kind != frame.Content || string(got) != want {
			t.Errorf("%q, %d bytes, %v, want %d bytes", kind, len(got), err, len(want))
		}
	}
	if got, err := reader.Expect(frame.Stat); err != nil || string(got) != `{"source":1,"path":"p"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, _, err := reader.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// Messages that are too long, cut off, or not the expected ones are errors.
func TestBroken(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       error
	}{
		{"too long", "C\x00\x10\x00\x01", frame.ErrTooLong},
		{"longest of all", "C\xff\xff\xff\xff", frame.ErrTooLong},
		{"no header", "C\x00", io.ErrUnexpectedEOF},
		{"small and cut off", "C\x00\x00\x00\x02a", io.ErrUnexpectedEOF},
		{"small and missing", "C\x00\x00\x00\x02", io.ErrUnexpectedEOF},
		{"large and cut off", "C\x00\x0f\xff\xffa", io.ErrUnexpectedEOF},
	} {
		if _, _, err := frame.NewReader(strings.NewReader(tt.text), 1<<20).Next(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if _, err := frame.NewReader(strings.NewReader("C\x00\x00\x00\x00"), 10).Expect(frame.Stat); err == nil {
		t.Error("another type is no error")
	}
}

// Whatever comes is messages that could have been sent, or an error.
func FuzzReader(f *testing.F) {
	f.Add([]byte("C\x00\x00\x00\x02ab"))
	f.Add([]byte("r\x00\x00\x00\x00o\x00\x00\x00\x01x"))
	f.Add([]byte("C\x00\x01\x00\x00"))
	f.Fuzz(func(t *testing.T, input []byte) {
		reader := frame.NewReader(bytes.NewReader(input), 1<<16)
		var again bytes.Buffer
		writer := frame.NewWriter(&again)
		for {
			kind, payload, err := reader.Next()
			if err != nil {
				break
			}
			must.Do(t, writer.Send(kind, payload))
		}
		must.Do(t, writer.Flush())
		if !bytes.HasPrefix(input, again.Bytes()) {
			t.Errorf("read %q from %q", again.Bytes(), input)
		}
	})
}
