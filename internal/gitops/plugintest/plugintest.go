// Package plugintest serves config management plugins to tests: by gRPC's own
// library and the definition of the protocol, on a Unix socket. Instead of
// commands a plugin has functions.
package plugintest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed" // for the definition of the protocol
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"slipway.dev/slipway/internal/must"
)

//go:embed plugin.proto
var definition string

// Plugin is what a plugin does.
type Plugin struct {
	// Generate returns manifests.
	Generate func(ctx context.Context, got Request) ([]string, error)
	// Discover reports whether a source matches; nil is a plugin without
	// discovery.
	Discover func(got Request) bool
	// GitCreds: the plugin wants credentials of repositories.
	GitCreds bool
}

// Request is what a plugin was sent.
type Request struct {
	Folder, FolderName string
	// Files are all files by their paths; a link is its target after an arrow.
	Files map[string]string
	// Executable are the files with the mode of a program.
	Executable []string
	Variables  map[string]string
}

// Server is a plugin that is served.
type Server struct {
	plugin Plugin
	// Generated and Matched count the calls.
	Generated, Matched atomic.Int64
}

// Folder is a new folder for sockets. Its path is short: that of a socket has at
// most 108 bytes.
func Folder(t testing.TB) string {
	t.Helper()
	folder := must.Get(os.MkdirTemp("", "cmp"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// Serve serves a plugin in a folder until the end of the test.
func Serve(t testing.TB, folder, name string, plugin Plugin) *Server {
	t.Helper()
	s := &Server{plugin: plugin}
	service := compile(t, map[string]string{"plugin.proto": definition}).Services().Get(0)
	described := &grpc.ServiceDesc{ServiceName: string(service.FullName()), HandlerType: (*any)(nil)}
	for i := range service.Methods().Len() {
		method := service.Methods().Get(i)
		described.Streams = append(described.Streams, grpc.StreamDesc{
			StreamName: string(method.Name()), ClientStreams: method.IsStreamingClient(),
			Handler: func(_ any, stream grpc.ServerStream) error { return s.handle(method, stream) },
		})
	}
	server := grpc.NewServer()
	server.RegisterService(described, s)
	listener := must.Get(net.Listen("unix", filepath.Join(folder, name+".sock")))(t)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return s
}

// compile reads the definition plugin.proto with its imports.
func compile(t testing.TB, files map[string]string) protoreflect.FileDescriptor {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(files)})}
	return must.Get(compiler.Compile(t.Context(), "plugin.proto"))(t)[0]
}

// handle serves one call.
func (s *Server) handle(method protoreflect.MethodDescriptor, stream grpc.ServerStream) error {
	var response string
	switch method.Name() {
	case "CheckPluginConfiguration":
		if err := stream.RecvMsg(dynamicpb.NewMessage(method.Input())); err != nil {
			return err
		}
		response = fmt.Sprintf(`{"isDiscoveryConfigured": %t, "provideGitCreds": %t}`, s.plugin.Discover != nil, s.plugin.GitCreds)
	case "MatchRepository":
		s.Matched.Add(1)
		got, err := receive(method, stream)
		if err != nil {
			return err
		}
		response = fmt.Sprintf(`{"isSupported": %t, "isDiscoveryEnabled": true}`, s.plugin.Discover(got))
	default:
		s.Generated.Add(1)
		got, err := receive(method, stream)
		if err != nil {
			return err
		}
		manifests, err := s.plugin.Generate(stream.Context(), got)
		if err != nil {
			return err
		}
		message := dynamicpb.NewMessage(method.Output())
		list := message.Mutable(method.Output().Fields().ByName("manifests")).List()
		for _, one := range manifests {
			list.Append(protoreflect.ValueOfString(one))
		}
		return stream.SendMsg(message)
	}
	message := dynamicpb.NewMessage(method.Output())
	if err := protojson.Unmarshal([]byte(response), message); err != nil {
		return err
	}
	return stream.SendMsg(message)
}

// receive reads the stream of a call, and unpacks the archive if its checksum is
// the one that was sent.
func receive(method protoreflect.MethodDescriptor, stream grpc.ServerStream) (Request, error) {
	first := dynamicpb.NewMessage(method.Input())
	if err := stream.RecvMsg(first); err != nil {
		return Request{}, err
	}
	metadata := part(first, "metadata")
	if metadata == nil {
		return Request{}, errors.New("the first message has no metadata")
	}
	got := Request{Folder: text(metadata, "appRelPath"), FolderName: text(metadata, "appName"), Files: map[string]string{}, Variables: map[string]string{}}
	variables := metadata.Get(field(metadata, "env")).List()
	for i := range variables.Len() {
		one := variables.Get(i).Message()
		got.Variables[text(one, "name")] = text(one, "value")
	}
	var archive []byte
	for {
		next := dynamicpb.NewMessage(method.Input())
		err := stream.RecvMsg(next)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Request{}, err
		}
		file := part(next, "file")
		if file == nil {
			return Request{}, errors.New("a message is no part of a file")
		}
		archive = append(archive, file.Get(field(file, "chunk")).Bytes()...)
	}
	sum := sha256.Sum256(archive)
	if size := metadata.Get(field(metadata, "size")).Int(); hex.EncodeToString(sum[:]) != text(metadata, "checksum") || size != int64(len(archive)) {
		return Request{}, fmt.Errorf("the archive has %d bytes and the checksum %x", len(archive), sum)
	}
	return got, got.unpack(archive)
}

// unpack reads the files of an archive.
func (r *Request) unpack(archive []byte) error {
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	files := tar.NewReader(plain)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeSymlink:
			r.Files[header.Name] = "-> " + header.Linkname
		case tar.TypeReg:
			content, err := io.ReadAll(files)
			if err != nil {
				return err
			}
			r.Files[header.Name] = string(content)
			if header.Mode&0o111 != 0 {
				r.Executable = append(r.Executable, header.Name)
			}
		}
	}
}

// field is a field of a message by its name.
func field(message protoreflect.Message, name protoreflect.Name) protoreflect.FieldDescriptor {
	return message.Descriptor().Fields().ByName(name)
}

// part is the message in a field; nil if it is not set.
func part(message protoreflect.Message, name protoreflect.Name) protoreflect.Message {
	if !message.Has(field(message, name)) {
		return nil
	}
	return message.Get(field(message, name)).Message()
}

// text is the text in a field.
func text(message protoreflect.Message, name protoreflect.Name) string {
	return message.Get(field(message, name)).String()
}
