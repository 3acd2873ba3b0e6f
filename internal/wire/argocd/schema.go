package argocd

import (
	_ "embed" // the messages
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// compiled are the .proto files of this folder as a FileDescriptorSet. Messages
// are made from it: Go types of all of them would be 15,000 lines of generated
// code for requests that people make.
//
//go:embed messages.binpb
var compiled []byte

// schema is read when the first request needs it.
var schema = sync.OnceValue(func() *protoregistry.Files {
	set := &descriptorpb.FileDescriptorSet{}
	err := proto.Unmarshal(compiled, set)
	if err != nil {
		panic(fmt.Sprintf("the messages of Argo CD's API are invalid: %v", err))
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		panic(fmt.Sprintf("the messages of Argo CD's API are invalid: %v", err))
	}
	return files
})

// newMessage returns an empty message. The name is one of the table of
// procedures, which a test compares with the files.
func newMessage(name string) *dynamicpb.Message {
	found, err := schema().FindDescriptorByName(protoreflect.FullName("argocd." + name))
	if err != nil {
		panic(fmt.Sprintf("no .proto file has the message %s: %v", name, err))
	}
	return dynamicpb.NewMessage(found.(protoreflect.MessageDescriptor))
}

// NewRequest returns an empty request.
func (p *Procedure) NewRequest() *dynamicpb.Message { return newMessage(p.input) }

// NewResponse returns an empty response.
func (p *Procedure) NewResponse() *dynamicpb.Message { return newMessage(p.output) }
