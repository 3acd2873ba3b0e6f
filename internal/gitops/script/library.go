package script

import (
	"time"

	lua "github.com/yuin/gopher-lua"
)

// globals lists what a script may use. The libraries of tables, strings and
// numbers only compute. Functions that read files, compile code or print, and
// those that replace the environment of others, are left out.
var globals = map[string]bool{
	"assert": true, "error": true, "getmetatable": true, "ipairs": true, "next": true, "pairs": true, "pcall": true,
	"rawequal": true, "rawget": true, "rawset": true, "select": true, "setmetatable": true, "tonumber": true,
	"tostring": true, "type": true, "unpack": true, "xpcall": true,
	lua.TabLibName: true, lua.StringLibName: true, lua.MathLibName: true,
}

// openLibraries gives a script its functions.
func openLibraries(state *lua.LState, now time.Time) {
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.BaseLibName, lua.OpenBase}, {lua.TabLibName, lua.OpenTable}, {lua.StringLibName, lua.OpenString},
		{lua.MathLibName, lua.OpenMath}, {lua.OsLibName, lua.OpenOs},
	} {
		state.Push(state.NewFunction(library.open))
		state.Push(lua.LString(library.name))
		state.Call(1, 0)
	}
	system := state.GetGlobal(lua.OsLibName)
	var unwanted []lua.LValue
	state.G.Global.ForEach(func(name, _ lua.LValue) {
		if !globals[name.String()] {
			unwanted = append(unwanted, name)
		}
	})
	for _, name := range unwanted {
		state.G.Global.RawSet(name, lua.LNil)
	}
	state.SetGlobal(lua.OsLibName, clock(state, system, now))
	// Scripts that were debugged in Argo CD print. The output has no reader.
	state.SetGlobal("print", state.NewFunction(func(*lua.LState) int { return 0 }))
	state.SetGlobal("require", state.NewFunction(require))
}

// require returns a library that is open already: Argo CD's scripts load that of
// times by its name.
func require(state *lua.LState) int {
	name := state.CheckString(1)
	library, isTable := state.GetGlobal(name).(*lua.LTable)
	if !isTable || name == "obj" {
		state.RaiseError("the module %s is not available", name)
	}
	state.Push(library)
	return 1
}

// clock is the library of times: date and time of the system's library, with the
// time of the caller as the current one.
func clock(state *lua.LState, system lua.LValue, now time.Time) *lua.LTable {
	current := lua.LNumber(now.Unix())
	date, timeOf := state.GetField(system, "date"), state.GetField(system, "time")
	return state.SetFuncs(state.NewTable(), map[string]lua.LGFunction{
		"date": func(state *lua.LState) int {
			format, at := state.OptString(1, "%c"), state.OptNumber(2, current)
			state.Push(date)
			state.Push(lua.LString(format))
			state.Push(at)
			state.Call(2, 1)
			return 1
		},
		"time": func(state *lua.LState) int {
			if state.GetTop() == 0 {
				state.Push(current)
				return 1
			}
			fields := state.CheckTable(1)
			state.Push(timeOf)
			state.Push(fields)
			state.Call(1, 1)
			return 1
		},
	})
}
