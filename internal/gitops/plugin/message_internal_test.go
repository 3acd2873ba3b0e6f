package plugin

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzResponse: whatever a plugin sends is a response or an error, and what
// follows a response adds to it.
func FuzzResponse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x08\x01\x10\x01"))
	f.Add([]byte("\x0a\x01a\x0a\x02bc\x12\x01d"))
	f.Add([]byte("\x0a\x7fa"))
	f.Add([]byte("\x1b\x1c\x08\x00"))
	f.Fuzz(func(t *testing.T, message []byte) {
		var got, more response
		if got.decode(message) != nil {
			return
		}
		extended := protowire.AppendVarint(protowire.AppendTag(appendBytes(message[:len(message):len(message)], 1, []byte("last")), 2, protowire.VarintType), 1)
		if err := more.decode(extended); err != nil {
			t.Fatal(err)
		}
		got.texts, got.flags[1] = append(got.texts, "last"), true
		if !reflect.DeepEqual(got, more) {
			t.Errorf("%v, want %v", more, got)
		}
	})
}
