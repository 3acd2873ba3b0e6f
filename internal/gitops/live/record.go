package live

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/klauspost/compress/s2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// Object is one object of the cluster. It does not change.
type Object struct {
	Key             tracking.Key
	UID             types.UID
	ResourceVersion string
	// APIVersion is the one that the object was read in.
	APIVersion string
	// App is the value of tracking.Label, empty if the object has none.
	App string

	// packed is the JSON as the API server sent it, compressed to less than half.
	packed []byte
}

// packBuffers are reused: the compressor needs more room than its result.
var packBuffers = sync.Pool{New: func() any { return new([]byte) }}

// pack compresses the JSON of an object.
func pack(raw []byte) []byte {
	buffer := packBuffers.Get().(*[]byte)
	defer packBuffers.Put(buffer)
	*buffer = s2.Encode((*buffer)[:cap(*buffer)], raw)
	return bytes.Clone(*buffer)
}

// Unstructured is the object, decoded: a fresh copy, with managedFields.
func (o *Object) Unstructured() *unstructured.Unstructured {
	var content map[string]any
	if err := json.Unmarshal(o.JSON(), &content); err != nil {
		// It was decoded once already, when it came.
		content = map[string]any{}
	}
	return &unstructured.Unstructured{Object: content}
}

// JSON is the object as the API server sent it: a fresh copy.
func (o *Object) JSON() []byte {
	raw, err := s2.Decode(nil, o.packed)
	if err != nil {
		return nil // it was compressed here
	}
	return raw
}

// record is an object as it comes from the API server: what the reflector needs
// to know, and the text.
type record struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	app string
	raw []byte
}

// DeepCopyObject is never called on the way to the cache; the text is shared.
func (r *record) DeepCopyObject() runtime.Object {
	same := *r
	return &same
}

// recordList is one page of a list.
type recordList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []record
}

// DeepCopyObject shares the texts.
func (l *recordList) DeepCopyObject() runtime.Object {
	same := *l
	return &same
}

// head is the part of an object or of a list that is decoded.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace          string    `json:"namespace"`
		Name               string    `json:"name"`
		UID                types.UID `json:"uid"`
		ResourceVersion    string    `json:"resourceVersion"`
		Continue           string    `json:"continue"`
		RemainingItemCount *int64    `json:"remainingItemCount"`
		Labels             struct {
			App string `json:"slipway.dev/app"`
		} `json:"labels"`
		Annotations struct {
			End string `json:"k8s.io/initial-events-end"`
		} `json:"annotations"`
	} `json:"metadata"`
	Items []stdjson.RawMessage `json:"items"`
}

// readHead decodes the identity of an object and skips the rest.
func readHead(raw []byte) (*head, error) {
	h := &head{}
	if err := json.Unmarshal(raw, h); err != nil {
		// The text of the error may quote what it could not read.
		return nil, errors.New("the API server's response is not the JSON of an object")
	}
	return h, nil
}

// isList distinguishes a page of a list from an object that has items.
func (h *head) isList() bool {
	return strings.HasSuffix(h.Kind, "List") && h.Metadata.UID == "" && h.Metadata.Name == ""
}

// record is what is kept of an object: its identity and its JSON. The
// annotation is kept for the reflector, which waits for the bookmark that ends
// the initial events of a streamed list.
func (h *head) record(raw []byte) record {
	r := record{
		TypeMeta: metav1.TypeMeta{APIVersion: h.APIVersion, Kind: h.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: h.Metadata.Namespace, Name: h.Metadata.Name,
			UID: h.Metadata.UID, ResourceVersion: h.Metadata.ResourceVersion,
		},
		app: h.Metadata.Labels.App, raw: raw,
	}
	if end := h.Metadata.Annotations.End; end != "" {
		r.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: end}
	}
	return r
}

// list makes records of a page. The items of a list of a built-in kind have
// neither apiVersion nor kind.
func (h *head) list() (*recordList, error) {
	list := &recordList{TypeMeta: metav1.TypeMeta{APIVersion: h.APIVersion, Kind: h.Kind}}
	list.ResourceVersion = h.Metadata.ResourceVersion
	list.Continue, list.RemainingItemCount = h.Metadata.Continue, h.Metadata.RemainingItemCount
	list.Items = make([]record, 0, len(h.Items))
	for i, raw := range h.Items {
		item, err := readHead(raw)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if item.Kind == "" {
			item.APIVersion, item.Kind = h.APIVersion, strings.TrimSuffix(h.Kind, "List")
			if raw, err = withKind(raw, item.APIVersion, item.Kind); err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
		}
		list.Items = append(list.Items, item.record(raw))
	}
	return list, nil
}

// withKind puts the kind in front of the fields of an object.
func withKind(raw []byte, version, kind string) ([]byte, error) {
	fields, ok := bytes.CutPrefix(bytes.TrimSpace(raw), []byte("{"))
	start, err := stdjson.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}{version, kind})
	if !ok || err != nil {
		return nil, errors.New("it is not an object")
	}
	comma := ","
	if bytes.HasPrefix(bytes.TrimSpace(fields), []byte("}")) {
		comma = ""
	}
	with := make([]byte, 0, len(start)+len(fields))
	with = append(with, start[:len(start)-1]...)
	with = append(with, comma...)
	return append(with, fields...), nil
}

// recordSerializer decodes responses of the API server as far as needed.
type recordSerializer struct{ runtime.Serializer }

// Decode makes a record, a list of records, or the Status of a request that
// failed.
func (s recordSerializer) Decode(raw []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	h, err := readHead(raw)
	if err != nil {
		return nil, nil, err
	}
	kind := schema.FromAPIVersionAndKind(h.APIVersion, h.Kind)
	switch {
	case h.APIVersion == "v1" && h.Kind == "Status":
		return s.Serializer.Decode(raw, nil, into)
	case h.isList():
		list, err := h.list()
		return list, &kind, err
	}
	decoded := h.record(raw)
	return &decoded, &kind, nil
}

// frameSerializer decodes the frames of a watch. That of client-go reads each
// twice, to find out that it is one.
type frameSerializer struct{ runtime.Serializer }

// Decode reads a frame into a WatchEvent.
func (s frameSerializer) Decode(raw []byte, kind *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return s.Serializer.Decode(raw, kind, into)
	}
	if err := json.Unmarshal(raw, event); err != nil {
		return nil, nil, errors.New("the API server sent an event that is not JSON")
	}
	return event, nil, nil
}
