package h2

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
)

// TestHeaderEncoder encodes responses whose headers come again, change and leave the
// dynamic table, whose size changes too. A client decodes all of them as they were.
func TestHeaderEncoder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var encoder headerEncoder
	encoder.init()
	decoder := hpack.NewDecoder(tableSize, nil)
	limits := h1.DefaultLimits()
	cached := 0
	for i := range 3000 {
		if random.IntN(50) == 0 {
			size := uint32(random.IntN(tableSize))
			encoder.setTableSize(size)
		}
		want := []string{":status: 200"}
		var text strings.Builder
		text.WriteString("HTTP/1.1 200 OK\r\n")
		for place := range random.IntN(20) {
			name, value := fmt.Sprintf("x-%d", place), "same"
			switch random.IntN(12) {
			case 0:
				value = fmt.Sprint(i/100, strings.Repeat("v", random.IntN(300)))
			case 1:
				name = "set-cookie"
			case 2:
				name = "content-type"
			}
			fmt.Fprintf(&text, "%s: %s\r\n", name, value)
			want = append(want, name+": "+value)
		}
		length := int64(random.IntN(3))
		want = append(want, fmt.Sprintf("content-length: %d", length))
		text.WriteString("\r\n")
		var head h1.ResponseHead
		if n, err := head.Parse([]byte(text.String()), &limits); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		encoder.status(200)
		for place := range head.Len() {
			encoder.field(&head.Fields, place)
		}
		encoder.contentLength(length)
		fields, err := decoder.DecodeFull(encoder.buf.Bytes())
		if err != nil {
			t.Fatalf("response %d: %v", i, err)
		}
		var got []string
		for _, f := range fields {
			got = append(got, f.Name+": "+f.Value)
			if f.Name == "set-cookie" && !f.Sensitive {
				t.Fatal("a secret may enter the table")
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("response %d: got %q, want %q", i, got, want)
		}
		for _, f := range encoder.sent {
			if f.size > 0 && f.table == encoder.table {
				cached++
			}
		}
		encoder.reset()
	}
	if cached == 0 {
		t.Error("nothing was cached")
	}
}
