package script

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	lua "github.com/yuin/gopher-lua"
)

const (
	// maxResult bounds the texts and the values of a result together.
	maxResult = 4 << 20
	// maxDepth bounds its nesting, and so a table that contains itself.
	maxDepth = 64
)

// toLua converts JSON types. Fields are inserted in the order of their names,
// which is the order in which a script finds them.
func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case int:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case []any:
		table := state.CreateTable(len(value), 0)
		for _, element := range value {
			table.Append(toLua(state, element))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(value))
		for _, name := range slices.Sorted(maps.Keys(value)) {
			table.RawSetString(name, toLua(state, value[name]))
		}
		return table
	}
	return lua.LNil
}

// fromLua converts a result to JSON types. An empty table is a list: Lua has one
// type for both.
func fromLua(value lua.LValue) (any, error) {
	c := &converter{left: maxResult}
	return c.value(value, maxDepth)
}

// converter converts one result.
type converter struct{ left int }

// value converts one value.
func (c *converter) value(value lua.LValue, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("the result is nested deeper than %d levels", maxDepth)
	}
	text, isText := value.(lua.LString)
	if c.left -= 1 + len(text); c.left < 0 {
		return nil, fmt.Errorf("the result is larger than %d bytes", maxResult)
	}
	switch value := value.(type) {
	case *lua.LNilType:
		return nil, nil
	case lua.LBool:
		return bool(value), nil
	case lua.LNumber:
		return number(float64(value))
	case *lua.LTable:
		return c.table(value, depth)
	}
	if isText {
		return string(text), nil
	}
	return nil, fmt.Errorf("the result has a value of the type %s", value.Type())
}

// table converts a table: a list if its first key is a number.
func (c *converter) table(table *lua.LTable, depth int) (any, error) {
	first, _ := table.Next(lua.LNil)
	if first.Type() != lua.LTString {
		return c.list(table, depth)
	}
	fields := map[string]any{}
	for key, element := table.Next(lua.LNil); key != lua.LNil; key, element = table.Next(key) {
		name, isText := key.(lua.LString)
		if !isText {
			return nil, errors.New("a table of the result has names and numbers as keys")
		}
		if c.left -= len(name); c.left < 0 {
			return nil, fmt.Errorf("the result is larger than %d bytes", maxResult)
		}
		converted, err := c.value(element, depth-1)
		if err != nil {
			return nil, err
		}
		fields[string(name)] = converted
	}
	return fields, nil
}

// list converts a table whose keys are 1, 2, 3 and so on.
func (c *converter) list(table *lua.LTable, depth int) (any, error) {
	elements := []any{}
	for key, element := table.Next(lua.LNil); key != lua.LNil; key, element = table.Next(key) {
		if key != lua.LNumber(len(elements)+1) {
			return nil, errors.New("a list of the result has gaps")
		}
		converted, err := c.value(element, depth-1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, converted)
	}
	return elements, nil
}

// number keeps whole numbers whole, as objects of Kubernetes have them.
func number(value float64) (any, error) {
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return nil, errors.New("the result has a number that is not finite")
	case value == math.Trunc(value) && math.Abs(value) <= 1<<53:
		return int64(value), nil
	}
	return value, nil
}
