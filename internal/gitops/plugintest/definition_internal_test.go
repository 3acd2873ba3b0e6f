package plugintest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestDefinition: the messages and methods here are those of Argo CD's own
// definition, in the module that its health rules come from.
func TestDefinition(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3"), "cmpserver/plugin/plugin.proto")))(t)
	upstream := describe(compile(t, map[string]string{
		"plugin.proto": string(text),
		// Only a method that is not called has a message of it.
		"github.com/argoproj/argo-cd/v3/reposerver/repository/repository.proto": "syntax = \"proto3\"; package repository; message ParameterAnnouncement {}",
	}))
	ours := describe(compile(t, map[string]string{"plugin.proto": definition}))
	for name, want := range ours {
		if got := upstream[name]; got != want {
			t.Errorf("%s is %q in Argo CD, and %q here", name, got, want)
		}
	}
	if len(ours) < 18 {
		t.Errorf("only %d fields and methods were compared", len(ours))
	}
}

// describe has a line for each field and method.
func describe(file protoreflect.FileDescriptor) map[string]string {
	lines := map[string]string{}
	for i := range file.Messages().Len() {
		fields := file.Messages().Get(i).Fields()
		for j := range fields.Len() {
			field := fields.Get(j)
			line := fmt.Sprint(field.Number(), field.Cardinality(), field.Kind())
			if field.Message() != nil {
				line += fmt.Sprint(field.Message().FullName())
			}
			lines[string(field.FullName())] = line
		}
	}
	methods := file.Services().Get(0).Methods()
	for i := range methods.Len() {
		method := methods.Get(i)
		lines[string(method.FullName())] = fmt.Sprint(method.Input().FullName(), method.IsStreamingClient(), method.Output().FullName(), method.IsStreamingServer())
	}
	return lines
}
