// Preact 11 writes a number in `style` as it is, which a browser refuses for lengths; here it means pixels, as it did.
import { options, type VNode } from "preact";

const WITHOUT_UNIT = /^(--|opacity|order|zIndex|flex|grid|lineHeight|fontWeight|columnCount|orphans|widows|zoom|scale|fill|stroke)/;
const before = options.vnode;

options.vnode = (vnode: VNode) => {
  const style = typeof vnode.type === "string" ? (vnode.props as { style?: unknown }).style : null;
  if (style !== null && typeof style === "object" && Object.values(style).some((value) => typeof value === "number")) {
    const written = Object.entries(style).map(([name, value]) => [name, typeof value === "number" && !WITHOUT_UNIT.test(name) ? `${value}px` : value]);
    (vnode.props as { style?: unknown }).style = Object.fromEntries(written);
  }
  before?.(vnode);
};
