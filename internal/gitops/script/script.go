package script

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

const (
	// maxSource bounds a script. The longest of Argo CD has 10 KiB.
	maxSource = 256 << 10
	// maxInstructions is 50 times what Argo CD's rules need for an object with
	// thousands of conditions.
	maxInstructions = 1_000_000
	// maxCalls and maxRegisters bound recursion and argument lists.
	maxCalls     = 200
	maxRegisters = 64 << 10
)

// ErrExhausted is the error of a script that exceeded the limits of the process
// that ran it. Other objects would fare no better.
var ErrExhausted = errors.New("the script exceeds its limits")

// errInstructions ends a script that runs for too long.
var errInstructions = fmt.Errorf("it runs for more than %d instructions", maxInstructions)

// Script is a compiled script. It is safe for concurrent use.
type Script struct{ code *lua.FunctionProto }

// Compile compiles a script. The name is for error messages.
func Compile(name, source string) (*Script, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("the script %s has %d bytes, and may have %d", name, len(source), maxSource)
	}
	chunk, err := parse.Parse(strings.NewReader(source), name)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", name, err)
	}
	code, err := lua.Compile(chunk, name)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", name, err)
	}
	return &Script{code: code}, nil
}

// Input is what a script reads.
type Input struct {
	// Object is obj. The script cannot change it.
	Object map[string]any
	// Parameters are actionParams, which actions have.
	Parameters map[string]string
	// Now is the current time.
	Now time.Time
}

// Run runs the script, and returns its result as JSON types.
func (s *Script) Run(given Input) (any, error) {
	state := lua.NewState(lua.Options{
		SkipOpenLibs: true, MinimizeStackMemory: true,
		CallStackSize: maxCalls, RegistrySize: 1 << 10, RegistryMaxSize: maxRegisters,
	})
	defer state.Close()
	openLibraries(state, given.Now)
	state.SetGlobal("obj", toLua(state, given.Object))
	parameters := state.NewTable()
	for name, value := range given.Parameters {
		parameters.RawSetString(name, lua.LString(value))
	}
	state.SetGlobal("actionParams", parameters)
	state.SetContext(&budget{Context: context.Background(), left: maxInstructions})
	state.Push(state.NewFunctionFromProto(s.code))
	if err := state.PCall(0, 1, nil); err != nil {
		return nil, withoutTrace(err)
	}
	return fromLua(state.Get(-1))
}

// withoutTrace drops the stack of the interpreter: users see the message.
func withoutTrace(err error) error {
	if failure, ok := errors.AsType[*lua.ApiError](err); ok && failure.Object != lua.LNil && failure.Object != nil {
		return errors.New(failure.Object.String())
	}
	return err
}

// budget ends a script after a number of instructions: the interpreter calls
// Done before each. It is for one script and one goroutine.
type budget struct {
	context.Context
	left int
}

// spent is what Done returns at the end.
var spent = func() chan struct{} {
	closed := make(chan struct{})
	close(closed)
	return closed
}()

// Done counts one instruction.
func (b *budget) Done() <-chan struct{} {
	if b.left--; b.left < 0 {
		return spent
	}
	return nil
}

// Err is the error of a script that was ended.
func (b *budget) Err() error {
	if b.left < 0 {
		return errInstructions
	}
	return nil
}
