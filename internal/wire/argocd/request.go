package argocd

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// FromREST returns the message of a REST request: the fields of its JSON body,
// of its query, and of its path, which counts most. Other parameters of the query
// are ignored, as Argo CD ignores them.
func (p *Procedure) FromREST(values map[string]string, query map[string][]string, body []byte) (*dynamicpb.Message, error) {
	message := p.NewRequest()
	if len(body) > 0 {
		if err := fillDocument(message, body); err != nil {
			return nil, fmt.Errorf("the body is not accepted: %w", err)
		}
	}
	fields := message.Descriptor().Fields()
	for name, given := range query {
		field := fields.ByName(protoreflect.Name(name))
		if field == nil || field.Kind() == protoreflect.MessageKind || field.IsMap() {
			continue
		}
		for _, text := range given {
			if err := setText(message, field, text); err != nil {
				return nil, fmt.Errorf("the parameter %s is not accepted: %w", name, err)
			}
		}
	}
	for name, text := range values {
		if err := setText(message, fields.ByName(protoreflect.Name(name)), text); err != nil {
			return nil, fmt.Errorf("%s in the path is not accepted: %w", name, err)
		}
	}
	return message, nil
}

// setText sets a field from a text, or appends it to a list.
func setText(message protoreflect.Message, field protoreflect.FieldDescriptor, text string) error {
	if !field.IsList() {
		return setScalar(message, field, text)
	}
	value, err := scalar(field, text)
	if err == nil {
		message.Mutable(field).List().Append(value)
	}
	return err
}

// Request reads the fields of a request. A field that the message does not have
// is like one that is not set.
type Request struct{ protoreflect.Message }

// field returns a field of the message, or nil.
func (r Request) field(name protoreflect.Name) protoreflect.FieldDescriptor {
	return r.Descriptor().Fields().ByName(name)
}

// Has reports whether a field is set.
func (r Request) Has(name protoreflect.Name) bool {
	field := r.field(name)
	return field != nil && r.Message.Has(field)
}

// Text returns a text.
func (r Request) Text(name protoreflect.Name) string {
	if !r.Has(name) {
		return ""
	}
	return r.Get(r.field(name)).String()
}

// Texts returns a list of texts.
func (r Request) Texts(name protoreflect.Name) (all []string) {
	if !r.Has(name) {
		return nil
	}
	list := r.Get(r.field(name)).List()
	for i := range list.Len() {
		all = append(all, list.Get(i).String())
	}
	return all
}

// Flag returns a flag.
func (r Request) Flag(name protoreflect.Name) bool { return r.Has(name) && r.Get(r.field(name)).Bool() }

// Number returns a number.
func (r Request) Number(name protoreflect.Name) int64 {
	if !r.Has(name) {
		return 0
	}
	return r.Get(r.field(name)).Int()
}

// Child returns a message; an empty one of the same kind if it is not set.
func (r Request) Child(name protoreflect.Name) Request {
	return Request{r.Get(r.field(name)).Message()}
}

// Children returns a list of messages.
func (r Request) Children(name protoreflect.Name) (all []Request) {
	if !r.Has(name) {
		return nil
	}
	list := r.Get(r.field(name)).List()
	for i := range list.Len() {
		all = append(all, Request{list.Get(i).Message()})
	}
	return all
}

// Application returns the namespace and the name of the Application that a
// request is about; the name is empty if it is about none.
func (r Request) Application() (namespace, name string) {
	if r.field("appNamespace") == nil {
		return "", ""
	}
	if r.field("applicationName") != nil {
		return r.Text("appNamespace"), r.Text("applicationName")
	}
	return r.Text("appNamespace"), r.Text("name")
}
