package live

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	restwatch "k8s.io/client-go/rest/watch"

	"slipway.dev/slipway/internal/must"
)

// BenchmarkEvent is what one event of a watch costs, from the bytes on the wire
// to the cache.
func BenchmarkEvent(b *testing.B) {
	fields := strings.Repeat(`"f:field":{"f:inner":{}},`, 40)
	event := func(version int) []byte {
		return fmt.Appendf(nil, `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","uid":"2f5b1c1e-0000-0000-0000-000000000000",`+
			`"resourceVersion":%q,"labels":{"slipway.dev/app":"abc"},"managedFields":[{"manager":"slipway","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{%s"f:data":{}}}]},`+
			`"data":{"text":%q}}}`+"\n", strconv.Itoa(version), fields, strings.Repeat("x", 1000))
	}
	info := jsonOnly().SupportedMediaTypes()[0]
	_, f := newFeed()
	must.Do(b, f.Replace(nil, "1"))
	version := 1
	b.SetBytes(int64(len(event(1))))
	b.ReportAllocs()
	for b.Loop() {
		version++
		frames := json.Framer.NewFrameReader(readCloser{bytes.NewReader(event(version))})
		decoder := restwatch.NewDecoder(streaming.NewDecoder(frames, info.StreamSerializer.Serializer), info.Serializer)
		_, object, err := decoder.Decode()
		must.Do(b, err)
		must.Do(b, f.Update(object))
	}
	if f.progress != strconv.Itoa(version) {
		b.Errorf("the feed is at %s", f.progress)
	}
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }
