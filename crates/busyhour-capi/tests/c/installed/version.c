/* The smallest program that uses the installed library. */
#include <busyhour.h>

#include <stdio.h>

int main(void) {
  puts(bh_version());
  return 0;
}
