package plugin

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Messages of the protocol, with the numbers that their fields have in Argo CD's
// plugin.proto. They are encoded by hand: five messages that never change need no
// generated code, and Argo CD's own brings its whole module.

// Variable is one of the environment of a plugin's commands.
type Variable struct{ Name, Value string }

// request is a part of a stream: the metadata first, and then the archive in
// chunks.
type request struct {
	metadata *metadata
	chunk    []byte
}

// metadata describes the archive that follows.
type metadata struct {
	// name is that of the application's folder, and folder its path.
	name, folder string
	// checksum is the sha256 of the archive, in hexadecimal.
	checksum    string
	size        int64
	environment []Variable
}

// encode is the message AppStreamRequest, or the message Empty without a part.
func (r *request) encode() []byte {
	switch {
	case r.metadata != nil:
		return appendBytes(nil, 1, r.metadata.encode())
	case r.chunk != nil:
		return appendBytes(nil, 2, appendBytes(nil, 1, r.chunk))
	}
	return nil
}

// encode is the message ManifestRequestMetadata.
func (m *metadata) encode() []byte {
	message := appendBytes(nil, 1, []byte(m.name))
	message = appendBytes(message, 2, []byte(m.folder))
	message = appendBytes(message, 3, []byte(m.checksum))
	message = protowire.AppendVarint(protowire.AppendTag(message, 4, protowire.VarintType), uint64(m.size))
	for _, one := range m.environment {
		entry := appendBytes(nil, 1, []byte(one.Name))
		message = appendBytes(message, 5, appendBytes(entry, 2, []byte(one.Value)))
	}
	return message
}

// appendBytes appends a field of text, bytes or a message.
func appendBytes(message []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(message, field, protowire.BytesType), value)
}

// response is a message of a plugin. All of them have at most two fields, which
// are flags, or a list of text and a text.
type response struct {
	texts []string
	flags [2]bool
}

// The flags of responses: of CheckPluginConfiguration and of MatchRepository.
const (
	flagDiscovery = 0 // discovery is configured
	flagGitCreds  = 1 // the plugin wants credentials
	flagSupported = 0 // the plugin matches
	flagEnabled   = 1 // discovery was used for that
)

// decode reads any of the responses. Fields that it does not know are left out,
// as the encoding requires.
func (r *response) decode(message []byte) error {
	for len(message) > 0 {
		field, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return protowire.ParseError(length)
		}
		message = message[length:]
		switch {
		case field == 1 && kind == protowire.BytesType:
			var text []byte
			if text, length = protowire.ConsumeBytes(message); length >= 0 {
				r.texts = append(r.texts, string(text))
			}
		case field <= 2 && kind == protowire.VarintType:
			var number uint64
			if number, length = protowire.ConsumeVarint(message); length >= 0 {
				r.flags[field-1] = number != 0
			}
		default:
			length = protowire.ConsumeFieldValue(field, kind, message)
		}
		if length < 0 {
			return protowire.ParseError(length)
		}
		message = message[length:]
	}
	return nil
}

// codec encodes messages for the client of Connect. Its name is that of the
// encoding in the protocol.
type codec struct{}

// Name implements connect.Codec.
func (codec) Name() string { return "proto" }

// Marshal implements connect.Codec.
func (codec) Marshal(value any) ([]byte, error) {
	sent, ok := value.(*request)
	if !ok {
		return nil, fmt.Errorf("%T is not sent to plugins", value)
	}
	return sent.encode(), nil
}

// Unmarshal implements connect.Codec.
func (codec) Unmarshal(text []byte, value any) error {
	received, ok := value.(*response)
	if !ok {
		return errors.New("plugins do not send that")
	}
	return received.decode(text)
}
