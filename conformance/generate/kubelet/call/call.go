// Package call calls functions whose parameters differ between the versions of Kubernetes.
//
// Later versions take a logger, a context or the admitted operation where earlier ones do not, and some take one more
// value at the end. A call names the values that all versions need, in order; the rest is supplied here.
package call

import (
	"context"
	"fmt"
	"reflect"

	"github.com/go-logr/logr"
)

// Since is a value for a parameter that only later versions have. It is left out where the parameter is missing.
type Since struct{ Value any }

// Func calls a function and returns its results.
func Func(function any, values ...any) []any {
	f := reflect.ValueOf(function)
	kind := f.Type()
	var arguments []reflect.Value
	for at := range kind.NumIn() {
		parameter := kind.In(at)
		if supplied, ok := supply(parameter); ok {
			arguments = append(arguments, supplied)
			continue
		}
		if len(values) == 0 {
			panic(fmt.Sprintf("%v: no value for parameter %d", kind, at))
		}
		arguments = append(arguments, fit(values[0], parameter))
		values = values[1:]
	}
	for _, value := range values {
		if _, ok := value.(Since); !ok {
			panic(fmt.Sprintf("%v: no parameter for %v", kind, value))
		}
	}
	var results []any
	for _, result := range f.Call(arguments) {
		results = append(results, result.Interface())
	}
	return results
}

// Method calls a method of a value by name.
func Method(receiver any, name string, values ...any) []any {
	method := reflect.ValueOf(receiver).MethodByName(name)
	if !method.IsValid() {
		panic(fmt.Sprintf("%T has no method %s", receiver, name))
	}
	return Func(method.Interface(), values...)
}

// Error is the last result of a call, an error or nil.
func Error(results []any) error {
	err, _ := results[len(results)-1].(error)
	return err
}

var (
	contexts = reflect.TypeFor[context.Context]()
	loggers  = reflect.TypeFor[logr.Logger]()
)

func supply(parameter reflect.Type) (reflect.Value, bool) {
	switch {
	case parameter == contexts:
		return reflect.ValueOf(context.Background()), true
	case parameter == loggers:
		return reflect.ValueOf(logr.Discard()), true
	case parameter.Name() == "Operation" && parameter.Kind() == reflect.String:
		return reflect.ValueOf("add").Convert(parameter), true
	}
	return reflect.Value{}, false
}

func fit(value any, parameter reflect.Type) reflect.Value {
	if since, ok := value.(Since); ok {
		value = since.Value
	}
	if value == nil {
		return reflect.Zero(parameter)
	}
	found := reflect.ValueOf(value)
	if !found.Type().AssignableTo(parameter) && found.CanConvert(parameter) {
		return found.Convert(parameter)
	}
	return found
}
