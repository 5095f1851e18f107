// Prints what kstatus, which Flux uses, makes of each object on standard input: JSON, one object a line.
package main

import (
	"bufio"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		object := &unstructured.Unstructured{}
		err := object.UnmarshalJSON(lines.Bytes())
		var result *status.Result
		if err == nil {
			result, err = status.Compute(object)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(result.Status)
	}
}
