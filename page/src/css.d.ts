declare module "*.css";
declare module "*.md" {
  const html: string;
  export default html;
}
