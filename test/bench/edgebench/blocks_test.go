package main

import (
	"debug/elf"
	"reflect"
	"testing"
)

// Blocks count for the function that they are in, and the first of a function for
// its calls; what ran before the profile does not count.
func TestCosts(t *testing.T) {
	symbols := []elf.Symbol{{Name: "b", Value: 200, Size: 50}, {Name: "a", Value: 100, Size: 50}}
	before := []block{{100, 3, 10}, {110, 5, 10}}
	after := []block{{100, 3, 12}, {110, 5, 11}, {200, 7, 1}, {160, 1, 4}, {50, 1, 1}}
	want := []functionCost{{"a", 11, 2}, {"b", 7, 1}, {"unknown", 5, 0}}
	if got := costs(before, after, symbols); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
