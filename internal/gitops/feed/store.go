package feed

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// store is the side of a Feed that the reflector writes to.
type store Feed

// Transformer drops managedFields as objects come in: they are never read, and
// are half of a small object.
func (*store) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if one, ok := object.(*unstructured.Unstructured); ok {
			unstructured.RemoveNestedField(one.Object, "metadata", "managedFields")
		}
		return object, nil
	}
}

// Add is called by the reflector for a new object. The reflector calls all
// methods from one goroutine, so known needs no lock.
func (s *store) Add(object any) error {
	s.take(object)
	return nil
}

// Update is called by the reflector for a changed object.
func (s *store) Update(object any) error {
	s.take(object)
	return nil
}

// Delete is called by the reflector for an object that is gone.
func (s *store) Delete(object any) error {
	if one, ok := object.(metav1.Object); ok {
		s.drop(nameOf(one))
	}
	return nil
}

// Replace is called by the reflector with all objects: at first, and when it has
// missed events.
func (s *store) Replace(objects []any, _ string) error {
	present := map[types.NamespacedName]struct{}{}
	for _, object := range objects {
		if one, ok := object.(metav1.Object); ok {
			present[nameOf(one)] = struct{}{}
			s.take(object)
		}
	}
	for name := range s.known {
		if _, still := present[name]; !still {
			s.drop(name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.listed {
		s.listed = true
		close(s.listedOnce)
	}
	return nil
}

// Resync is never called.
func (*store) Resync() error { return nil }

// take passes an object on. One that was deleted and created again in the
// meantime is reported as gone first, so that its store entry is not reused.
func (s *store) take(object any) {
	var last *unstructured.Unstructured
	switch one := object.(type) {
	case *unstructured.Unstructured:
		last = one
	case *metav1.PartialObjectMetadata:
		last = &unstructured.Unstructured{Object: map[string]any{}}
		last.SetNamespace(one.Namespace)
		last.SetName(one.Name)
		last.SetUID(one.UID)
		last.SetResourceVersion(one.ResourceVersion)
	default:
		return
	}
	name := nameOf(last)
	if before, known := s.known[name]; known && before != last.GetUID() {
		s.drop(name)
	}
	s.known[name] = last.GetUID()
	s.Put(last)
}

// drop reports an object as gone, once.
func (s *store) drop(name types.NamespacedName) {
	if uid, known := s.known[name]; known {
		delete(s.known, name)
		s.Gone(name, uid)
	}
}

// nameOf is the key of an object.
func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
