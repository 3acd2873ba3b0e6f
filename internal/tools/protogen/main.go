// Command protogen writes the code of the messages in internal/wire: types of
// protobuf with clients and handlers of Connect in Go, and the same for the console
// in TypeScript. It reads the .proto files itself and runs the generators that
// go.mod and web/package.json pin, so that nothing else has to be installed.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	// module is what the paths of generated files begin with.
	module = "slipway.dev/slipway"
	// console is where the console has its generated files.
	console = "web/src/api/gen"
	// consoleGenerator writes them. npm installs it.
	consoleGenerator = "web/node_modules/.bin/protoc-gen-es"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	out := flag.String("out", ".", "root of the folder that files are written to")
	flag.Parse()
	if err := run(context.Background(), *root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out string) error {
	source := filepath.Join(root, "internal/wire/proto")
	names, err := protoFiles(source)
	if err != nil {
		return err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{source}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		ProtoFile:      descriptors(files),
		Parameter:      proto.String("module=" + module),
	}
	for _, generator := range []string{"protoc-gen-go", "protoc-gen-connect-go"} {
		if err := generate(exec.CommandContext(ctx, "go", "tool", generator), request, out); err != nil {
			return fmt.Errorf("%s: %w", generator, err)
		}
	}
	script := filepath.Join(root, filepath.FromSlash(consoleGenerator))
	if _, err := os.Stat(script); err != nil {
		return fmt.Errorf("the generator for the console is missing: run `make console-modules` first: %w", err)
	}
	request.Parameter = proto.String("target=ts")
	return generate(exec.CommandContext(ctx, script), request, filepath.Join(out, filepath.FromSlash(console)))
}

// protoFiles are the files below a folder, relative to it.
func protoFiles(folder string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".proto") {
			return err
		}
		name, err := filepath.Rel(folder, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	sort.Strings(names)
	return names, err
}

// descriptors are the files and all that they import, imports first.
func descriptors(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var all []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		all = append(all, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	return all
}

// generate runs one generator and writes what it answers.
func generate(command *exec.Cmd, request *pluginpb.CodeGeneratorRequest, out string) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.GetError() != "" {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, file := range response.GetFile() {
		path := filepath.Join(out, filepath.FromSlash(file.GetName()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
