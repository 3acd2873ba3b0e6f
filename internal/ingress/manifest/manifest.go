// Package manifest reads objects from files instead of a cluster, so that lint and
// explain check them with the resolver that serves them, before they are applied.
//
// It promises to read what kubectl reads: YAML and JSON, several documents in a
// file, lists, directories recursively. It uses the kinds that routes depend on
// and counts the others. An unknown field is reported, because the API server
// would drop it silently.
//
// It refuses files beyond MaxFileBytes, and follows no symbolic links in a
// directory.
package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
)

// MaxFileBytes bounds one file, which is read into memory as a whole. Read
// fails for a larger one.
const MaxFileBytes = 16 << 20

// maxNesting bounds a List within Lists. A deeper List counts as an object of
// another kind.
const maxNesting = 4

// Set has the objects that were read. It is filled by Read and not changed
// after.
type Set struct {
	// Snapshot has the objects. All custom kinds count as read: an object that is
	// not in the files does not exist.
	Snapshot *snapshot.Snapshot
	// Files has the file of each object.
	Files map[snapshot.Ref]string
	// Findings are the problems of the files themselves.
	Findings []Finding
	// Passed counts objects of other kinds.
	Passed int
}

// Finding is one problem of a file, or of an object in files or a cluster.
type Finding struct {
	// Severity is error, or warning for a reference that may exist in the
	// cluster.
	Severity finding.Severity `json:"severity"`
	File     string           `json:"file,omitempty"`
	// Object is empty, or has only a kind, if the document could not be decoded.
	Object  string         `json:"object,omitempty"`
	Field   string         `json:"field,omitempty"`
	Reason  refusal.Reason `json:"reason,omitempty"`
	Message string         `json:"message"`
}

// Read reads files and directories; "-" means the input. Objects without a
// namespace get the given one. An unreadable file or path fails the whole read;
// an invalid document is a Finding.
func Read(paths []string, namespace string, input io.Reader) (*Set, error) {
	set := &Set{Snapshot: snapshot.New(), Files: map[snapshot.Ref]string{}}
	for _, kind := range snapshot.CustomKinds() {
		set.Snapshot.SetKind(kind, snapshot.KindKnown)
	}
	set.Snapshot.SetKind(snapshot.ConfigMap, snapshot.KindKnown)
	for _, path := range paths {
		if err := set.readPath(path, namespace, input); err != nil {
			return nil, err
		}
	}
	set.labelNamespaces()
	return set, nil
}

// readPath reads a file or a directory tree. A file that is named explicitly is
// read with any extension; in a directory only manifests are, and hidden
// directories such as .git are skipped.
func (s *Set) readPath(path, namespace string, input io.Reader) error {
	if path == "-" {
		return s.readDocuments("standard input", namespace, input)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return s.readFile(path, namespace)
	}
	return filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && file != path && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)) {
			return nil
		}
		return s.readFile(file, namespace)
	})
}

func (s *Set) readFile(path, namespace string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return s.readDocuments(path, namespace, file)
}

// readDocuments reads one file. A document that is not a Kubernetes object is a
// finding; the others are used.
func (s *Set) readDocuments(name, namespace string, from io.Reader) error {
	// One byte more than the bound distinguishes a file of exactly that size
	// from a larger one.
	text, err := io.ReadAll(io.LimitReader(from, MaxFileBytes+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > MaxFileBytes {
		return fmt.Errorf("%s is larger than %d MiB", name, MaxFileBytes>>20)
	}
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer documents.Close()
	// No document is longer than the file, so Read of the decoder never returns
	// a part.
	buffer := make([]byte, len(text)+1)
	for {
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		s.take(source{name, namespace}, buffer[:n], maxNesting)
	}
}

// source is the origin of a document and its default namespace.
type source struct{ file, namespace string }

// take adds one document to the set. depth bounds the nesting of lists.
func (s *Set) take(from source, document []byte, depth int) {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Items           []any `json:"items"`
	}
	if len(bytes.TrimSpace(document)) == 0 {
		return
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		s.find(from.file, snapshot.Ref{}, "a document is not an object of Kubernetes: %v", err)
		return
	}
	if head.Kind == "" {
		var content any
		if yaml.Unmarshal(document, &content) == nil && content != nil {
			s.find(from.file, snapshot.Ref{}, "a document names no kind")
		}
		return // else it was only comments
	}
	if head.Kind == "List" && depth > 0 {
		for _, item := range head.Items {
			if text, err := yaml.Marshal(item); err == nil { // it was read as YAML
				s.take(from, text, depth-1)
			}
		}
		return
	}
	switch head.APIVersion + " " + head.Kind {
	case "networking.k8s.io/v1 Ingress":
		takeObject(s, from, document, snapshot.Ingress, &networkingv1.Ingress{})
	case "extensions/v1beta1 Ingress", "networking.k8s.io/v1beta1 Ingress":
		s.takeOutdated(from, document, head.TypeMeta)
	case "networking.k8s.io/v1 IngressClass":
		takeObject(s, from, document, snapshot.IngressClass, &networkingv1.IngressClass{})
	case "v1 Service":
		takeObject(s, from, document, snapshot.Service, &corev1.Service{})
	case "discovery.k8s.io/v1 EndpointSlice":
		takeObject(s, from, document, snapshot.EndpointSlice, &discoveryv1.EndpointSlice{})
	case "v1 Secret":
		s.takeSecret(from, document)
	case "v1 ConfigMap":
		s.takeConfigMap(from, document)
	case "v1 Namespace":
		takeObject(s, from, document, snapshot.Namespace, &corev1.Namespace{})
	default:
		s.takeCustom(from, document, head.TypeMeta)
	}
}

// takeOutdated reports an Ingress of a version that API servers no longer have. It
// would not be applied, so it must not look as if it was in order.
func (s *Set) takeOutdated(from source, document []byte, head metav1.TypeMeta) {
	var object struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		s.find(from.file, snapshot.Ref{Kind: snapshot.Ingress}, "%v", err)
		return
	}
	ref := snapshot.Ref{Kind: snapshot.Ingress, Namespace: cmp.Or(object.Namespace, from.namespace), Name: object.Name}
	s.find(from.file, ref, "Kubernetes has no Ingress of %s since version 1.22: write apiVersion: networking.k8s.io/v1, a pathType for each path, "+
		"and service: {name: NAME, port: {number: PORT}} in place of serviceName and servicePort", head.APIVersion)
}

func (s *Set) find(file string, object snapshot.Ref, format string, args ...any) {
	s.Findings = append(s.Findings, Finding{Severity: finding.Error, File: file, Object: object.String(), Message: fmt.Sprintf(format, args...)})
}

// takeObject adds a built-in object to the set. It is decoded a second time to
// find unknown fields, which are findings and do not exclude the object.
func takeObject[T metav1.Object](s *Set, from source, document []byte, kind snapshot.Kind, object T) {
	if err := yaml.Unmarshal(document, object); err != nil {
		s.find(from.file, snapshot.Ref{Kind: kind}, "%v", err)
		return
	}
	if !clusterScoped(kind) && object.GetNamespace() == "" {
		object.SetNamespace(from.namespace)
	}
	ref := s.place(from, kind, object)
	// The strict decoder stops at the first unknown field, so it needs a target
	// of its own.
	strict := reflect.New(reflect.TypeOf(object).Elem()).Interface()
	if err := yaml.UnmarshalStrict(document, strict); err != nil {
		s.find(from.file, ref, "%s", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: "))
	}
	s.Snapshot.Put(object)
}

// place records the file of an object. Of two objects with the same reference
// the later one wins, as with kubectl apply.
func (s *Set) place(from source, kind snapshot.Kind, object metav1.Object) snapshot.Ref {
	ref := snapshot.Ref{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
	if other, twice := s.Files[ref]; twice {
		s.find(from.file, ref, "it is in %s too; this one counts", other)
	}
	s.Files[ref] = from.file
	return ref
}

// takeSecret adds a Secret. stringData overrides data, as in the API server.
func (s *Set) takeSecret(from source, document []byte) {
	var object corev1.Secret
	if err := yaml.Unmarshal(document, &object); err != nil {
		// The error of the decoder could contain the data.
		s.find(from.file, snapshot.Ref{Kind: snapshot.Secret}, "a Secret cannot be read: is its data encoded in base64?")
		return
	}
	object.Namespace = cmp.Or(object.Namespace, from.namespace)
	s.place(from, snapshot.Secret, &object)
	data := make(map[string][]byte, len(object.Data)+len(object.StringData))
	maps.Copy(data, object.Data)
	for name, value := range object.StringData {
		data[name] = []byte(value)
	}
	s.Snapshot.Put(&snapshot.SecretBody{Namespace: object.Namespace, Name: object.Name, Type: string(object.Type), Data: data})
}

// takeConfigMap adds a ConfigMap, which annotations and policies can name.
func (s *Set) takeConfigMap(from source, document []byte) {
	var object corev1.ConfigMap
	if err := yaml.Unmarshal(document, &object); err != nil {
		s.find(from.file, snapshot.Ref{Kind: snapshot.ConfigMap}, "%v", err)
		return
	}
	object.Namespace = cmp.Or(object.Namespace, from.namespace)
	s.place(from, snapshot.ConfigMap, &object)
	s.Snapshot.Put(&snapshot.Resource{Kind: snapshot.ConfigMap, Namespace: object.Namespace, Name: object.Name, Spec: snapshot.SpecOfData(object.Data)})
}

// takeCustom adds objects of the custom kinds that routes depend on, and counts
// all others. The spec stays undecoded here: package policy and package traefik
// decode it strictly and report unknown fields.
func (s *Set) takeCustom(from source, document []byte, kind metav1.TypeMeta) {
	group, version, _ := strings.Cut(kind.APIVersion, "/")
	known := snapshot.Kind(kind.Kind + "." + group)
	if group == gatewayv1.GroupName {
		s.takeGateway(from, document, version, known)
		return
	}
	if version != "v1alpha1" || !slices.Contains(snapshot.CustomKinds(), known) {
		s.Passed++
		return
	}
	var object struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(document, &object); err != nil {
		s.find(from.file, snapshot.Ref{Kind: known}, "%v", err)
		return
	}
	object.Namespace = cmp.Or(object.Namespace, from.namespace)
	s.place(from, known, &object)
	resource := &snapshot.Resource{Kind: known, Namespace: object.Namespace, Name: object.Name, Spec: object.Spec}
	if snapshot.IsTraefikUnit(known) {
		resource.Created, resource.Annotations = object.CreationTimestamp.Time, object.Annotations
	}
	s.Snapshot.Put(resource)
}
