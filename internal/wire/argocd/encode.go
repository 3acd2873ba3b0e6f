package argocd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Response encodes a JSON document as a response of the procedure. Fields that
// the message does not have are left out, such as apiVersion and kind, which
// clients know.
func (p *Procedure) Response(document []byte) (*dynamicpb.Message, error) {
	message := p.NewResponse()
	return message, fillDocument(message, document)
}

// fillDocument sets the fields of a message from a JSON document.
func fillDocument(message protoreflect.Message, document []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber() // an int64 does not fit into a float
	var value map[string]any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("it is no JSON object: %w", err)
	}
	return fill(message, value)
}

// fill sets the fields of a message. The depth is that of the messages, none of
// which contains itself.
func fill(message protoreflect.Message, value map[string]any) error {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		given, has := value[string(field.Name())]
		var err error
		switch {
		case isInline(field):
			err = fill(message.Mutable(field).Message(), value)
		case !has || given == nil:
			continue
		case field.IsMap():
			err = fillMap(message.Mutable(field).Map(), field, given)
		case field.IsList():
			err = fillList(message.Mutable(field).List(), field, given)
		case field.Kind() == protoreflect.MessageKind:
			err = fillMessage(message.Mutable(field).Message(), given)
		default:
			err = setScalar(message, field, given)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", field.Name(), err)
		}
	}
	return nil
}

// isInline reports whether the fields of a message are those of the one around
// it in JSON: Go embeds the type.
func isInline(field protoreflect.FieldDescriptor) bool {
	return field.Name() == "resourceRef" || field.Name() == "syncStrategyApply"
}

// setScalar sets a field that is no message.
func setScalar(message protoreflect.Message, field protoreflect.FieldDescriptor, given any) error {
	value, err := scalar(field, given)
	if err == nil {
		message.Set(field, value)
	}
	return err
}

// fillMap sets a map, whose keys are strings.
func fillMap(into protoreflect.Map, field protoreflect.FieldDescriptor, given any) error {
	values, ok := given.(map[string]any)
	if !ok {
		return fmt.Errorf("it is no object")
	}
	for key, one := range values {
		value, err := scalar(field.MapValue(), one)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		into.Set(protoreflect.ValueOfString(key).MapKey(), value)
	}
	return nil
}

// fillList appends the items of a list.
func fillList(into protoreflect.List, field protoreflect.FieldDescriptor, given any) error {
	values, ok := given.([]any)
	if !ok {
		return fmt.Errorf("it is no list")
	}
	for i, one := range values {
		var err error
		if field.Kind() == protoreflect.MessageKind {
			err = fillMessage(into.AppendMutable().Message(), one)
		} else {
			var value protoreflect.Value
			if value, err = scalar(field, one); err == nil {
				into.Append(value)
			}
		}
		if err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
	}
	return nil
}

// fillMessage sets a message from its form in JSON, which is not an object with
// its fields for some types.
func fillMessage(into protoreflect.Message, given any) error {
	switch into.Descriptor().Name() {
	case "Time":
		return fillTime(into, given)
	case "RawExtension":
		raw, err := json.Marshal(given)
		into.Set(into.Descriptor().Fields().ByName("raw"), protoreflect.ValueOfBytes(raw))
		return err
	case "IntOrString":
		if text, ok := given.(string); ok {
			return fill(into, map[string]any{"type": json.Number("1"), "strVal": text})
		}
		return fill(into, map[string]any{"intVal": given})
	case "OptionalMap":
		return fill(into, map[string]any{"map": given})
	case "OptionalArray":
		return fill(into, map[string]any{"array": given})
	}
	value, ok := given.(map[string]any)
	if !ok {
		return fmt.Errorf("it is no object")
	}
	return fill(into, value)
}

// fillTime sets a time.
func fillTime(into protoreflect.Message, given any) error {
	text, ok := given.(string)
	if !ok {
		return fmt.Errorf("it is no time")
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return fmt.Errorf("it is no time: %w", err)
	}
	fields := into.Descriptor().Fields()
	into.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(at.Unix()))
	into.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(int32(at.Nanosecond()))) //nolint:gosec // below 1e9
	return nil
}

// scalar converts a value of JSON, or a text of a path or a query.
func scalar(field protoreflect.FieldDescriptor, given any) (protoreflect.Value, error) {
	text, isText := given.(string)
	switch field.Kind() {
	case protoreflect.StringKind:
		if isText {
			return protoreflect.ValueOfString(text), nil
		}
		return protoreflect.Value{}, fmt.Errorf("it is no text")
	case protoreflect.BoolKind:
		flag, ok := given.(bool)
		if isText {
			parsed, err := strconv.ParseBool(text)
			flag, ok = parsed, err == nil
		}
		if ok {
			return protoreflect.ValueOfBool(flag), nil
		}
		return protoreflect.Value{}, fmt.Errorf("it is neither true nor false")
	case protoreflect.Int64Kind, protoreflect.Int32Kind:
		if number, ok := given.(json.Number); ok {
			text = string(number)
		}
		number, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil || field.Kind() == protoreflect.Int32Kind && (number < math.MinInt32 || number > math.MaxInt32):
			return protoreflect.Value{}, fmt.Errorf("it is no number")
		case field.Kind() == protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(int32(number)), nil
		}
		return protoreflect.ValueOfInt64(number), nil
	}
	return protoreflect.Value{}, fmt.Errorf("a %s is not accepted here", field.Kind())
}
